import { openForeignFile } from "@sluice/client/internal";
import { type Principal, SluiceError } from "@sluice/core";
import {
  canonicalType,
  definedMembers,
  isAccepted,
  parseMediaType,
  sanitizeFileName,
} from "@sluice/core/internal";
import { unlessMissing } from "@sluice/storage/plugin";
import { ensureAccepted } from "../checks/detect-kind.ts";
import { isText, typesOfName } from "../checks/media-types.ts";
import type { ClaimedFile, Slots, UploadedFile } from "../slots/slots.ts";
import { ensureSize, refusal } from "./file-fault.ts";
import type { FileArgument, FileInputTerms, HostFile } from "./file-input.ts";
import type { FileHandle, FileUris } from "./file-uri.ts";

/** Terms with a largest size: that of the uploads if they name none. */
type InputTerms = FileInputTerms & Required<Pick<FileInputTerms, "maxBytes">>;

interface InputWork<Terms = InputTerms> {
  readonly terms: Terms;
  readonly owner: Principal | undefined;
  readonly signal: AbortSignal;
}

interface UploadedFiles {
  /** Receives the reason why a file of a host could not be fetched. */
  readonly onError: (error: unknown) => void;
  /** Origins that files of hosts may come from, beside those of the public internet. */
  readonly trustedOrigins: readonly string[];
  /** Largest file of the uploads. */
  readonly maxBytes: number;
  readonly slots: Pick<Slots, "keep" | "reopen" | "received" | "confirm" | "discard">;
  readonly uris: FileUris;
}

/** Opens the file of an argument; see `Uploads.open`. */
export async function openInput(
  files: UploadedFiles,
  argument: FileArgument,
  { terms, ...call }: InputWork<FileInputTerms>,
): Promise<UploadedFile> {
  const { maxBytes = files.maxBytes } = terms;
  const work = { ...call, terms: { ...terms, maxBytes } };
  if (typeof argument !== "string") return openHostFile(files, argument, work);
  const mode = /^data:/i.test(argument) ? "inline" : "upload";
  const { transferModes } = terms;
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
  const { name, mimeType, bytes } = parseDataUri(argument, terms.maxBytes);
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
  if (!known) throw new SluiceError("not_found", "files: the bytes have not arrived");
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

/** Extensions are for the file picker (SEP-2631 §5). */
function typesIn({ accept = [] }: FileInputTerms): readonly string[] {
  return accept.filter((entry) => !entry.startsWith("."));
}

/** Refuses a file that is larger than the terms allow, or of another type. */
function ensureFits(
  terms: InputTerms,
  { mimeType, size }: Pick<ClaimedFile, "mimeType" | "size">,
): void {
  ensureSize(size, terms.maxBytes);
  if (!isAccepted({ name: "", mimeType }, typesIn(terms)))
    throw refusal(`${mimeType} is not accepted`, {
      reason: "mimeTypeNotAccepted",
      mimeType,
      accept: terms.accept,
    });
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

/**
 * Fetches a file of a host into a slot of the caller's. The URL is a stranger's word: it leads to public
 * addresses and trusted origins only, at every hop, and no credentials go there.
 */
async function openHostFile(
  { slots, trustedOrigins, onError }: UploadedFiles,
  { download_url: url, mime_type, file_name }: HostFile,
  { terms, owner, signal }: InputWork,
): Promise<UploadedFile> {
  const { maxBytes } = terms;
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
    if (file.size !== undefined) ensureSize(file.size, maxBytes);
    const slotTerms = { accept: typesIn(terms), maxBytes, maxFiles: 1 };
    const facts = definedMembers({ name: file_name ?? file.name, mimeType, size: file.size });
    return await slots.keep(owner, { ...facts, body: file }, slotTerms, { signal });
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

/** What a `data:` URI holds. */
interface InlineFile {
  /** The `name` parameter, percent-decoded: the sender's word. */
  readonly name?: string | undefined;
  /** `type/subtype`. */
  readonly mimeType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a `data:` URI (RFC 2397) as an input of SEP-2631 §4, in base64 or percent-encoded. Its size is known from its
 * length: one that decodes to more than `maxBytes` is refused before anything is decoded.
 */
export function parseDataUri(uri: string, maxBytes: number): InlineFile {
  const comma = uri.indexOf(",");
  if (!/^data:/i.test(uri) || comma < 0) throw malformed();
  const head = uri.slice("data:".length, comma);
  const isBase64 = /;\s*base64$/i.test(head);
  const type = head.replace(/;\s*base64$/i, "");
  const mimeType = type === "" ? "text/plain" : parseMediaType(withType(type))?.essence;
  if (mimeType === undefined) throw malformed();
  const start = comma + 1;
  const size = isBase64 ? base64Size(uri, start) : percentSize(uri, start);
  ensureSize(size, maxBytes);
  const data = uri.slice(start);
  return {
    name: nameIn(type),
    mimeType,
    bytes: isBase64 ? fromBase64(data) : fromPercent(data, size),
  };
}

/** Clients that send a file in its URI name it so: `data:text/plain;name=a%20file.txt;base64,…`. */
function nameIn(type: string): string | undefined {
  const parameter = type.split(";").find((each) => /^\s*name=/i.test(each));
  const name = parameter?.slice(parameter.indexOf("=") + 1).trim();
  try {
    return name === undefined ? undefined : decodeURIComponent(name);
  } catch {
    throw malformed();
  }
}

/** RFC 2397 §2: parameters alone mean text/plain. */
function withType(type: string): string {
  return type.startsWith(";") ? `text/plain${type}` : type;
}

function base64Size(uri: string, start: number): number {
  const length = uri.length - start;
  const padding = uri.endsWith("==") ? 2 : uri.endsWith("=") ? 1 : 0;
  return Math.floor(((length - padding) * 3) / 4);
}

function percentSize(uri: string, start: number): number {
  let size = 0;
  for (let at = start; at < uri.length; at++, size++) if (uri[at] === "%") at += 2;
  return size;
}

function fromBase64(data: string): Uint8Array<ArrayBuffer> {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data)) throw malformed();
  try {
    return Uint8Array.from(atob(data), (byte) => byte.charCodeAt(0));
  } catch {
    throw malformed();
  }
}

function fromPercent(data: string, size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  for (let at = 0, to = 0; at < data.length; at++, to++) {
    const escaped = data[at] === "%" ? data.slice(at + 1, at + 3) : undefined;
    if (escaped === undefined) bytes[to] = data.charCodeAt(at);
    else if (/^[0-9a-f]{2}$/i.test(escaped)) bytes[to] = Number.parseInt(escaped, 16);
    else throw malformed();
    if (escaped !== undefined) at += 2;
    // a URI is ASCII
    else if (data.charCodeAt(at) > 0x7e) throw malformed();
  }
  return bytes;
}

function malformed(): SluiceError {
  return new SluiceError("invalid_argument", "files: the data: URI is malformed");
}
