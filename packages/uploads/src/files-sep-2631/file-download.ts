import { type Principal, SluiceError } from "@sluice/core";
import {
  createSha256,
  decodeBase64Url,
  definedMembers,
  encodeBase64Url,
  EXTENSION_ID,
  fileNameFromUri,
  type FileTransferDescriptor,
  type FileValue,
  type RevisionKind,
  UPLOADS_EXTENSION_ID,
} from "@sluice/core/internal";
import { type AuditEntry, type Host, tagOf } from "@sluice/server/internal";
import type { ObjectInfo } from "@sluice/storage";
import { codeOf } from "../slots/upload-error.ts";
import type { FileUris } from "./file-uri.ts";

interface ServedFiles {
  readonly host: Pick<Host, "nameOf" | "authorize">;
  readonly uris: FileUris;
}

interface LinkedFiles extends ServedFiles {
  readonly host: Pick<Host, "nameOf" | "authorize" | "mintLink" | "beginAudit" | "usage">;
}

/** The caller, and the owner of its files. */
export interface DownloadCaller {
  readonly identity: Awaited<ReturnType<Host["identify"]>>;
  readonly owner: Principal | undefined;
  /** Address of the client, where it is known. */
  readonly address: string | undefined;
  readonly revision: RevisionKind;
  readonly signal: AbortSignal;
}

/** How long the URI of a file that a tool returned is good. */
const valueTtlMs = 3_600_000;

/** A resource as a file; see `FileTransfer.value`. */
export async function valueOf(
  { host, uris }: ServedFiles,
  resourceUri: string,
  { identity, owner, signal }: DownloadCaller,
): Promise<FileValue> {
  const name = host.nameOf(resourceUri);
  const { principal } = identity;
  const { key, storage } = await host.authorize({ principal, name, action: "stream" });
  const { info, size, sha256 } = await digestOf(storage, key, signal);
  const expiresAt = Date.now() + valueTtlMs;
  const { etag } = info;
  const handle = { kind: "resource", key: name, etag, sha256, expiresAt } as const;
  const uri = await uris.format(handle, { principal: owner, share: identity.owner });
  return { ...describeFile(uri, info, { size, sha256 }), _meta: expiryMeta(expiresAt) };
}

/** Result of `files/authorizeDownload`: an `AuthorizedFile` (SEP-2631 §4). */
interface AuthorizedDownload {
  readonly file: FileValue;
  readonly download: FileTransferDescriptor;
}

/**
 * Makes a link to the version that the URI was made for. A descriptor is a capability (§8): every holder may use it, without
 * credentials, and it acts as the caller.
 */
export async function authorizeDownload(
  files: LinkedFiles,
  uri: string,
  caller: DownloadCaller,
): Promise<AuthorizedDownload> {
  const { host } = files;
  const { identity, address, revision, signal } = caller;
  const principal = tagOf(identity.principal);
  const entry = host.beginAudit({ action: "link", mode: "link", revision, address, principal });
  try {
    await host.usage.admit(principal, "request");
    const authorized = await entry.run(() => mintDownload(files, uri, caller, entry));
    await entry.conclude("issued");
    return authorized;
  } catch (error) {
    const reason = codeOf(error);
    const isFault = reason === "internal" || reason === "unavailable";
    entry.end(signal.aborted ? "aborted" : isFault ? "failed" : "denied", { reason });
    throw error;
  }
}

async function mintDownload(
  { host, uris }: LinkedFiles,
  uri: string,
  { identity, owner, signal }: DownloadCaller,
  { facts }: AuditEntry,
): Promise<AuthorizedDownload> {
  const handle = await uris.parse(uri, owner);
  if (handle.kind !== "resource")
    throw new SluiceError("not_found", "files: what was uploaded is not there to be downloaded");
  const { key: name, etag, sha256, expiresAt } = handle;
  const { principal } = identity;
  const resource = await host.authorize({ principal, name, action: "stream" });
  const { key, storage } = resource;
  facts.uri = resource.uri;
  const info = await storage.describe(key, { signal });
  if (info.etag !== etag)
    throw new SluiceError("precondition_failed", "files: the file has changed since");
  const link = await host.mintLink(identity, { name, etag });
  if (!link) throw new SluiceError("unauthenticated", "files: the caller is not authenticated");
  facts.grant = link.id;
  const until = new Date(link.expiresAt).toISOString();
  return {
    file: { ...describeFile(uri, info, { size: info.size, sha256 }), _meta: expiryMeta(expiresAt) },
    download: {
      transport: "https",
      method: "GET",
      url: link.url,
      expiresAt: until,
      _meta: { [EXTENSION_ID]: { auth: "self", expiresAt: until } },
    },
  };
}

function describeFile(
  uri: string,
  { key, contentType }: ObjectInfo,
  { size, sha256 }: { readonly size: number | undefined; readonly sha256: string },
): FileValue {
  const name = fileNameFromUri(key);
  const digest = formatDigest(sha256);
  return definedMembers({ uri, name, mimeType: contentType, size, digest });
}

function expiryMeta(expiresAt: number): NonNullable<FileValue["_meta"]> {
  return { [UPLOADS_EXTENSION_ID]: { expiresAt: new Date(expiresAt).toISOString() } };
}

/** Size and SHA-256 of one version: as storage knows them, or read once. */
async function digestOf(
  storage: Awaited<ReturnType<Host["authorize"]>>["storage"],
  key: string,
  signal: AbortSignal,
): Promise<{ info: ObjectInfo; size: number; sha256: string }> {
  const knownInfo = await storage.describe(key, { signal });
  const sha256 = knownInfo.digests?.sha256;
  if (sha256 !== undefined && knownInfo.size !== undefined)
    return { info: knownInfo, size: knownInfo.size, sha256 };
  const { info, body } = await storage.open(key, { signal });
  const hash = createSha256();
  let size = 0;
  for await (const chunk of body) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { info, size, sha256: hash.digest() };
}

/** A SHA-256 as SEP-2631 §4 writes it; `sha256` is lower-case hex. */
export function formatDigest(sha256: string): NonNullable<FileValue["digest"]> {
  const bytes = Uint8Array.from(sha256.match(/../g)!, (byte) => Number.parseInt(byte, 16));
  return { algorithm: "sha-256", value: encodeBase64Url(bytes) };
}

/** The hex of a SHA-256 in base64url without padding; `undefined` for anything else. */
export function parseDigest(value: string): string | undefined {
  const bytes = value.length === 43 ? decodeBase64Url(value) : undefined;
  return bytes && Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
