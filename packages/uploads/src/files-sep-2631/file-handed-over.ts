import { openForeignFile } from "@sluice/client/files";
import { definedMembers, SluiceError } from "@sluice/core";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import {
  defaultInputBytes,
  ensureSizeFits,
  type HandedOverFile,
  type InputWork,
  typesIn,
} from "./file-input.ts";
import { refusal } from "./file-fault.ts";

/**
 * Fetches a file that a host handed over into a slot of the caller's. The URL is a stranger's word: it leads to public
 * addresses and trusted origins only, at every hop, and no credentials go there.
 */
export async function openHandedOver(
  {
    slots,
    trustedOrigins,
    onError,
  }: {
    readonly slots: Pick<Slots, "keep">;
    readonly trustedOrigins: readonly string[];
    readonly onError: (error: unknown) => void;
  },
  { download_url: url, mime_type, file_name }: HandedOverFile,
  { terms, owner, signal }: InputWork,
): Promise<UploadedFile> {
  const { maxBytes = defaultInputBytes } = terms;
  /** What the caller learns; the cause goes to the server's own log. */
  const noFile = (cause: SluiceError): Error => {
    if (!signal.aborted) onError(unfetched(url, cause));
    return refusal("download_url gave no file; attach it again", { reason: "fetchFailed" });
  };
  const file = await openForeignFile(url, { trustedOrigins, signal }).catch((error: unknown) => {
    if (!SluiceError.is(error)) throw error;
    throw isRefused(error) ? refused() : noFile(error);
  });
  try {
    const mimeType = mime_type ?? file.mimeType;
    if (file.size !== undefined) ensureSizeFits(terms, file.size);
    const slotTerms = { accept: typesIn(terms), maxBytes, maxFiles: 1 };
    const named = definedMembers({ name: file_name ?? file.name, mimeType, size: file.size });
    return await slots.keep(owner, { ...named, body: file }, slotTerms, { signal });
  } catch (error) {
    file.cancel();
    const isBroken = SluiceError.is(error) && brokenCodes.has(error.code);
    throw isBroken ? noFile(error) : error;
  }
}

/** The other server stopped, or was too slow. */
const brokenCodes: ReadonlySet<string> = new Set(["interrupted", "timeout"]);

/** True for a URL that is not asked for. */
function isRefused({ code }: SluiceError): boolean {
  return code === "untrusted" || code === "unsupported";
}

/** Says what the caller can change, and nothing of what answered at which address. */
function refused(): Error {
  return refusal("download_url is taken when it is https and leads to a public address", {
    reason: "urlNotAccepted",
  });
}

/** For the log: the cause, and where from. The query of such a URL is a secret. */
function unfetched(url: string, { code, message }: SluiceError): SluiceError {
  const { origin, pathname } = new URL(url);
  return new SluiceError(code, `files: download_url ${origin}${pathname} gave no file: ${message}`);
}
