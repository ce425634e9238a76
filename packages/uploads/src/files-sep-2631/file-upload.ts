import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  type FileTransferDescriptor,
  type FileValue,
  UPLOADS_EXTENSION_ID,
} from "@sluice/core/internal";
import { z } from "zod/v4";
import type { Slots } from "../slots/slots.ts";
import { graceMs } from "../store/upload-state.ts";
import { parseDigest, type DownloadCaller } from "./file-download.ts";
import { ensureSize, refusal } from "./file-fault.ts";
import type { FileUris } from "./file-uri.ts";

/** Parameters of `files/authorizeUpload` (SEP-2631 §6): what the client knows of the file. */
interface DeclaredFile {
  readonly name?: string | undefined;
  readonly mimeType?: string | undefined;
  /** Bytes. */
  readonly size?: number | undefined;
  readonly digest?: { readonly algorithm: string; readonly value: string } | undefined;
}

/** Their schema. */
export const uploadParams: z.ZodType<DeclaredFile> = z.looseObject({
  name: z.string().min(1).max(1_024).optional(),
  mimeType: z.string().max(255).optional(),
  size: z.int().nonnegative().optional(),
  digest: z.object({ algorithm: z.string(), value: z.string() }).optional(),
});

/** Result of `files/authorizeUpload`: an `AuthorizedFile` and where its bytes go. */
interface AuthorizedUpload {
  readonly file: FileValue;
  readonly upload: FileTransferDescriptor;
}

/**
 * Reserves a slot for what was declared. The descriptor authenticates itself, as §6 has it, and is short-lived; the
 * file belongs to the caller.
 */
export async function authorizeUpload(
  { slots, uris }: { readonly slots: Pick<Slots, "reserve">; readonly uris: FileUris },
  { name, mimeType, size, digest }: DeclaredFile,
  { identity: { mayMint, owner: share }, owner }: Pick<DownloadCaller, "identity" | "owner">,
): Promise<AuthorizedUpload> {
  if (!mayMint) throw new SluiceError("unauthenticated", "files: the caller is not authenticated");
  const sha256 = digest && digestIn(digest);
  if (mimeType !== undefined && !/^[\w.!#$&^+-]+\/[\w.!#$&^+-]+$/.test(mimeType))
    throw refusal("mimeType is not a media type", { reason: "invalidMimeType", mimeType });
  const terms = {
    // what the client calls it is a guess from its name; the tool that gets the file asks for types
    accept: [],
    maxBytes: Math.max(1, size ?? Number.MAX_SAFE_INTEGER),
    maxFiles: 1,
    sha256,
  };
  const slot = await slots.reserve(owner, terms, {
    ttlMs: uploadTtlMs,
    selfAuthenticating: true,
    share,
  });
  if (size !== undefined) ensureSize(size, slot.terms.maxBytes);
  const { uploadId } = slot;
  const expiresAt = slot.expiresAt + useTtlMs;
  const handle = { kind: "upload", uploadId, name, size, mimeType, sha256, expiresAt } as const;
  const uri = await uris.format(handle, { principal: owner, share });
  const until = new Date(slot.expiresAt).toISOString();
  return {
    file: definedMembers({
      uri,
      name,
      mimeType,
      size,
      digest: digest && ({ algorithm: "sha-256", value: digest.value } as const),
    }),
    upload: {
      transport: "https",
      method: slot.method,
      url: slot.url,
      multipart: { fileField: "file" },
      expiresAt: until,
      _meta: { [UPLOADS_EXTENSION_ID]: { wire: "resumable", auth: "self", expiresAt: until } },
    },
  };
}

/** Maximum life of a slot without a bearer. */
const uploadTtlMs = 900_000;
/**
 * How long the URI of a file outlives its slot: a body that began at the last moment may take 6 hours, and the sweeper keeps what
 * came for 5 minutes more.
 */
const useTtlMs = 6 * 3_600_000 + graceMs;

function digestIn({ algorithm, value }: { algorithm: string; value: string }): string {
  const sha256 = algorithm === "sha-256" ? parseDigest(value) : undefined;
  if (sha256 !== undefined) return sha256;
  throw refusal("digest must be sha-256, in base64url without padding", {
    reason: "invalidDigest",
    algorithm,
    supported: ["sha-256"],
  });
}
