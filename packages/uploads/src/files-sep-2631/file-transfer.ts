import { SluiceError } from "@sluice/core";
import {
  AUTHORIZE_DOWNLOAD_METHOD,
  AUTHORIZE_UPLOAD_METHOD,
  definedMembers,
  type FileTransferDescriptor,
  type FileValue,
  UPLOADS_EXTENSION_ID,
} from "@sluice/core/internal";
import type { AnyCall, AnyMcpServer } from "@sluice/server";
import { type Host, serverInV2 } from "@sluice/server/internal";
import { z } from "zod/v4";
import type { Slots } from "../slots/slots.ts";
import { graceMs } from "../store/upload-state.ts";
import { authorizeDownload, type DownloadCaller, parseDigest, valueOf } from "./file-download.ts";
import { ensureSize, refusal, serveCaller } from "./file-fault.ts";
import { createFileUris, type FileUris } from "./file-uri.ts";

/**
 * Files as SEP-2631 moves them (draft of 2026-06-16, experimental): over the slots of the uploads and the download
 * grants of their Sluice. `open` of the uploads takes the URIs that clients get here.
 */
export interface FileTransfer {
  /** Serves `files/authorizeUpload` (§6) and `files/authorizeDownload` (§8). Gives the same server back. */
  attach<Mcp extends AnyMcpServer>(mcp: Mcp): Mcp;
  /**
   * A resource as a tool returns it in `structuredContent` (§8): with its size and SHA-256, which takes reading it once
   * where storage does not know it. The URI is good for an hour, for the caller and this version only.
   */
  value(resourceUri: string, call: AnyCall): Promise<FileValue>;
}

/** Uploads, as far as the methods need them: what `createUploads` gave. */
interface TransferUploads extends Pick<Slots, "reserve"> {
  readonly host: { readonly sluice: Host };
}

/** Makes the file transfer of uploads and their Sluice. */
export function createFileTransfer(uploads: TransferUploads): FileTransfer {
  if (!(uploads as Partial<TransferUploads> | undefined)?.host?.sluice)
    throw new TypeError("createFileTransfer: the argument must be what createUploads gave");
  const host = uploads.host.sluice;
  const uris = createFileUris(host);

  return {
    attach(given) {
      const mcp = serverInV2(given);
      host.ensureOwn(mcp);
      mcp.server.setRequestHandler(
        AUTHORIZE_UPLOAD_METHOD,
        { params: uploadParams, result: anyResult },
        (params, ctx) =>
          serveCaller(host, { mcp, ctx }, async (caller) => ({
            ...(await authorizeUpload({ slots: uploads, uris }, params, caller)),
          })),
      );
      mcp.server.setRequestHandler(
        AUTHORIZE_DOWNLOAD_METHOD,
        { params: z.looseObject({ uri: z.string() }), result: anyResult },
        ({ uri }, ctx) =>
          serveCaller(host, { mcp, ctx }, async (caller) => ({
            ...(await authorizeDownload({ host, uris }, uri, caller)),
          })),
      );
      return given;
    },
    value: (resourceUri, call) =>
      serveCaller(host, call, (caller) => valueOf({ host, uris }, resourceUri, caller)),
  };
}

const anyResult = z.looseObject({});

/** Parameters of `files/authorizeUpload` (SEP-2631 §6): what the client knows of the file. */
interface DeclaredFile {
  readonly name?: string | undefined;
  readonly mimeType?: string | undefined;
  /** Bytes. */
  readonly size?: number | undefined;
  readonly digest?: { readonly algorithm: string; readonly value: string } | undefined;
}

/** Their schema. */
const uploadParams: z.ZodType<DeclaredFile> = z.looseObject({
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
