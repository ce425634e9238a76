import { abortable } from "@sluice/core/internal";
import type { FileRecord } from "./layout.ts";
import type { UploadStorage } from "./upload-storage.ts";

/** What a scanner is told of a file. */
export interface ScanFacts {
  readonly uploadId: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly signal: AbortSignal;
}

/** `defer`: not known yet; asked again when the file is to be confirmed. */
export type ScanVerdict = "clean" | "reject" | "defer";

/** Scans a file before it can be read. What it throws counts as `defer`. */
export type Scan = (
  body: ReadableStream<Uint8Array>,
  facts: ScanFacts,
) => ScanVerdict | Promise<ScanVerdict>;

/** Longest time to scan one file. */
const scanMs = 10 * 60_000;

interface ScannedFile extends Pick<FileRecord, "name" | "size" | "mimeType" | "sha256"> {
  readonly uploadId: string;
  readonly key: string;
}

/** Scans a file; a scanner that fails counts as `defer`. Without a scanner the file is `unscanned`. */
export async function scanFile(
  {
    storage,
    scan,
    onError,
  }: {
    readonly storage: UploadStorage;
    readonly scan: Scan | undefined;
    readonly onError: (error: unknown) => void;
  },
  { key, uploadId, name = "", size, mimeType, sha256 }: ScannedFile,
  signal: AbortSignal,
): Promise<ScanVerdict | "unscanned"> {
  if (!scan) return "unscanned";
  const limited = AbortSignal.any([signal, AbortSignal.timeout(scanMs)]);
  const opened = await storage.open(key, { signal: limited });
  const { body } = opened;
  try {
    const verdict = await abortable(
      (async () => scan(body, { uploadId, name, size, mimeType, sha256, signal: limited }))(),
      limited,
    );
    return verdict === "clean" || verdict === "reject" ? verdict : "defer";
  } catch (error) {
    signal.throwIfAborted();
    onError(error);
    return "defer";
  } finally {
    // a scanner may have seen enough before the end
    if (!body.locked) await body.cancel().catch(() => {});
    await opened.file?.close();
  }
}
