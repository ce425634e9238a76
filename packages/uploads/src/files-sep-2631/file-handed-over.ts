import { openForeignFile } from "@sluice/client/files";
import { definedMembers, SluiceError } from "@sluice/core";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { ensureSizeFits, typesIn, type InputWork } from "./ensure-fits.ts";
import { refusal } from "./file-fault.ts";
import { defaultInputBytes, type HandedOverFile } from "./file-input.ts";

/**
 * Fetches a file that a host handed over into a slot of the caller's. The URL is a stranger's word: it leads to public
 * addresses and trusted origins only, at every hop, and no credentials go there.
 */
export async function openHandedOver(
  {
    slots,
    trustedOrigins,
  }: {
    readonly slots: Pick<Slots, "keep">;
    readonly trustedOrigins: readonly string[];
  },
  { download_url: url, mime_type, file_name }: HandedOverFile,
  { terms, owner, signal }: InputWork,
): Promise<UploadedFile> {
  const { maxBytes = defaultInputBytes } = terms;
  const file = await openForeignFile(url, { trustedOrigins, signal }).catch(rethrowUnopened);
  try {
    const mimeType = mime_type ?? file.mimeType;
    if (file.size !== undefined) ensureSizeFits(terms, file.size);
    const slotTerms = { accept: typesIn(terms), maxBytes, maxFiles: 1 };
    const named = definedMembers({ name: file_name ?? file.name, mimeType, size: file.size });
    return await slots.keep(owner, { ...named, body: file }, slotTerms, { signal });
  } catch (error) {
    file.cancel();
    const isBroken = SluiceError.is(error) && brokenCodes.has(error.code);
    throw isBroken ? noFile() : error;
  }
}

/** The other server stopped, or was too slow. */
const brokenCodes: ReadonlySet<string> = new Set(["interrupted", "timeout"]);

/** Says what the caller can change, and nothing of what answered at which address. */
function rethrowUnopened(error: unknown): never {
  if (!SluiceError.is(error)) throw error;
  if (error.code !== "untrusted" && error.code !== "unsupported") throw noFile();
  throw refusal("download_url is taken when it is https and leads to a public address", {
    reason: "urlNotAccepted",
  });
}

function noFile(): Error {
  return refusal("download_url gave no file; attach it again", { reason: "fetchFailed" });
}
