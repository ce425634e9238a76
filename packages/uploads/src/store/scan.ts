import type { FileRecord } from "./records.ts";
import type { ScanVerdict } from "../slots/uploads-options.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

/** Longest time for looking into one file. */
const scanMs = 10 * 60_000;

/** Has a file looked into; a scanner that fails has not decided. */
export async function scanFile(
  { storage, scan, host }: UploadsParts,
  uploadId: string,
  key: string,
  file: Pick<FileRecord, "name" | "size" | "mimeType" | "sha256">,
  signal: AbortSignal,
): Promise<ScanVerdict | "unscanned"> {
  if (!scan) return "unscanned";
  const limited = AbortSignal.any([signal, AbortSignal.timeout(scanMs)]);
  const opened = await storage.open(key, { signal: limited });
  const { body } = opened;
  const { name = "", size, mimeType, sha256 } = file;
  try {
    const verdict = await untilAborted(
      (async () => scan(body, { uploadId, name, size, mimeType, sha256, signal: limited }))(),
      limited,
    );
    return verdict === "clean" || verdict === "reject" ? verdict : "defer";
  } catch (error) {
    signal.throwIfAborted();
    host.onError(error);
    return "defer";
  } finally {
    // a scanner may have seen enough before the end
    if (!body.locked) await body.cancel().catch(() => {});
    await opened.file?.close();
  }
}

async function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const settled = new AbortController();
  const aborted = new Promise<never>((_resolve, reject) => {
    const options = { once: true, signal: settled.signal };
    signal.addEventListener("abort", () => reject(signal.reason as Error), options);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    settled.abort();
  }
}
