import { sanitizeFileName, type Principal } from "@sluice/core";
import type { Confirmation } from "../confirm/confirm.ts";
import type { ReceiveFiles } from "../receive/raw-upload.ts";
import type { SlotSealer } from "./slot-token.ts";
import type { KeptFile, SlotTerms, UploadedFile } from "./slots.ts";

/** Takes a file that is here already, see {@link Slots.keep}. */
export async function keepBytes(
  {
    sealer,
    receiveRaw,
    confirmation,
  }: {
    readonly sealer: SlotSealer;
    readonly receiveRaw: ReceiveFiles;
    readonly confirmation: Pick<Confirmation, "confirm">;
  },
  principal: Principal | undefined,
  { name, mimeType, bytes, terms }: KeptFile & { readonly terms: SlotTerms },
  signal: AbortSignal,
): Promise<UploadedFile> {
  const { slot } = sealer.seal(principal, terms, {});
  const records = await receiveRaw({
    slot,
    facts: {
      contentLength: bytes.byteLength,
      contentType: mimeType,
      name: name === undefined ? undefined : sanitizeFileName(name),
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
  const [file] = await confirmation.confirm(principal, slot.uploadId, { claims }, signal);
  return file!;
}
