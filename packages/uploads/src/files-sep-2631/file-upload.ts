import { canonicalType, definedMembers, sanitizeFileName, SluiceError } from "@sluice/core";
import {
  UPLOADS_EXTENSION_ID,
  type FileTransferDescriptor,
  type FileValue,
} from "@sluice/core/wire";
import { unlessMissing } from "@sluice/storage/plugin";
import { z } from "zod/v4";
import { ensureAccepted } from "../checks/detect-kind.ts";
import { isText, typesOfName } from "../checks/media-types.ts";
import type { ClaimedFile, Slots, UploadedFile } from "../slots/slots.ts";
import { graceMs } from "../store/upload-state.ts";
import { type DownloadCaller, parseDigest } from "./file-download.ts";
import { parseDataUri } from "./data-uri.ts";
import { refusal } from "./file-fault.ts";
import {
  defaultInputBytes,
  ensureFits,
  type FileArgument,
  type FileInputTerms,
  type InputWork,
  typesIn,
} from "./file-input.ts";
import { openHandedOver } from "./file-handed-over.ts";
import type { FileHandle, FileUris } from "./file-uri.ts";

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
    throw refusal("mimeType is no media type", { reason: "invalidMimeType", mimeType });
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
  const maxSize = slot.terms.maxBytes;
  if (size !== undefined && size > maxSize)
    throw refusal(`the file has ${size} bytes, and at most ${maxSize} are accepted`, {
      reason: "maxSizeExceeded",
      maxSize,
      actualSize: size,
    });
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

/** Most that a slot without a bearer may live. */
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

/** Slots, and the URIs that name their files. */
interface UploadedFiles {
  /** Hears why a file that a host handed over could not be fetched. */
  readonly onError: (error: unknown) => void;
  /** Origins that files of hosts may come from, beside those of the public internet. */
  readonly trustedOrigins: readonly string[];
  readonly slots: Pick<Slots, "keep" | "reopen" | "received" | "confirm" | "discard">;
  readonly uris: FileUris;
}

/** Opens the file of an argument; see `FileTransfer.open`. */
export async function openInput(
  files: UploadedFiles,
  argument: FileArgument,
  work: InputWork,
): Promise<UploadedFile> {
  if (typeof argument !== "string") return openHandedOver(files, argument, work);
  const mode = /^data:/i.test(argument) ? "inline" : "upload";
  const { transferModes } = work.terms;
  if (transferModes && !transferModes.includes(mode))
    throw refusal(`the file must come by ${transferModes.join(" or ")}`, {
      reason: "transferModeNotAccepted",
      transferModes,
    });
  return mode === "inline"
    ? openInline(files.slots, argument, work)
    : openUpload(files, argument, work);
}

async function openInline(
  slots: Pick<Slots, "keep">,
  argument: string,
  { terms, owner, signal }: InputWork,
): Promise<UploadedFile> {
  const { name, mimeType, bytes } = parseDataUri(argument, terms.maxBytes ?? defaultInputBytes);
  ensureFits(terms, { mimeType, size: bytes.length });
  const slotTerms = { accept: typesIn(terms), maxBytes: Math.max(1, bytes.length), maxFiles: 1 };
  return slots.keep(owner, { name, mimeType, bytes }, slotTerms, { signal });
}

async function openUpload(
  { slots, uris }: UploadedFiles,
  argument: string,
  { terms, owner, signal }: InputWork,
): Promise<UploadedFile> {
  const handle = await uris.parse(argument, owner);
  if (handle.kind !== "upload")
    throw refusal("the URI is that of a file that came from the server", { reason: "unknownFile" });
  const { uploadId } = handle;
  const confirmed = await unlessMissing(slots.reopen(owner, uploadId, { signal }));
  const [known] = confirmed ?? (await slots.received(owner, uploadId, { signal }));
  if (!known) throw new SluiceError("not_found", "files: the bytes have not come");
  if (!agrees(handle, known)) {
    await slots.discard(uploadId);
    const reason =
      handle.sha256 === undefined || handle.sha256 === known.sha256 ? "changed" : "digestMismatch";
    throw refusal("the file that came is not the one that was declared", { reason });
  }
  ensureFits(terms, known);
  const [file] = confirmed ?? (await slots.confirm(owner, uploadId, [known], { signal }));
  await ensureTypeOf(file!, terms, signal);
  return { ...file!, name: await nameOf(handle, known) };
}

/** The name that was declared counts where the bytes came without one, unless it says another type. */
async function nameOf(
  { name }: { readonly name?: string | undefined },
  known: ClaimedFile,
): Promise<string> {
  if (!unnamed.has(known.name)) return known.name;
  // a large table, wanted only here
  const { default: mime } = await import("mime");
  const type = canonicalType(known.mimeType);
  const tableOf = (extension: string): string | null => mime.getType(`.${extension}`);
  const types = typesOfName(name ?? "", isText(type), tableOf);
  const isFit = types.length === 0 || types.includes(type);
  return isFit ? sanitizeFileName(name, known.name) : known.name;
}

/** What a file is called that came without a name, and what forms call it. */
const unnamed: ReadonlySet<string> = new Set(["blob", "download"]);

/** True when a file is what `files/authorizeUpload` was told that it would be. */
function agrees(
  { size, sha256 }: Extract<FileHandle, { kind: "upload" }>,
  file: ClaimedFile,
): boolean {
  return (
    (size === undefined || size === file.size) && (sha256 === undefined || sha256 === file.sha256)
  );
}

/** Its slot took any type. */
async function ensureTypeOf(
  file: UploadedFile,
  terms: FileInputTerms,
  signal: AbortSignal,
): Promise<void> {
  const types = typesIn(terms);
  if (types.length === 0 || types.includes("*/*")) return;
  const { name, mimeType } = file;
  const opened = await file.open({ signal });
  try {
    await ensureAccepted(opened.body, { name, declaredType: mimeType }, types);
  } finally {
    await opened.file?.close();
  }
}
