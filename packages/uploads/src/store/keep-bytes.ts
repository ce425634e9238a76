import { sanitizeFileName, type Principal } from "@sluice/core";
import { confirmUpload } from "../confirm/confirm.ts";
import { receiveRaw } from "../receive/raw-upload.ts";
import type { KeptFile, SlotTerms, UploadedFile } from "../slots/slots.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

/** Takes a file that is here already, see {@link Slots.keep}. */
export async function keepBytes(
  parts: UploadsParts,
  principal: Principal | undefined,
  { name, mimeType, bytes }: KeptFile,
  terms: SlotTerms,
  signal: AbortSignal,
): Promise<UploadedFile> {
  const { slot } = parts.sealer.seal(principal, terms, {});
  const records = await receiveRaw(parts, {
    slot,
    facts: {
      contentLength: bytes.byteLength,
      contentType: mimeType,
      ...(name !== undefined && { name: sanitizeFileName(name) }),
    },
    body: { read: async (take) => take(bytes) },
    signal,
    onBytes: () => {},
  });
  const claims = records.map(({ size, mimeType: type, sha256 }) => ({
    name: sanitizeFileName(name, "file"),
    size,
    mimeType: type,
    sha256,
  }));
  const [file] = await confirmUpload(
    parts,
    principal,
    slot.uploadId,
    { claims, unnamed: "refuse" },
    signal,
  );
  return file!;
}
