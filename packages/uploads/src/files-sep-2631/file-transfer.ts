import {
  AUTHORIZE_DOWNLOAD_METHOD,
  AUTHORIZE_UPLOAD_METHOD,
  type FileValue,
} from "@sluice/core/internal";
import type { AnyCall, AnyMcpServer } from "@sluice/server";
import { type Host, serverInV2 } from "@sluice/server/internal";
import { z } from "zod/v4";
import type { Slots } from "../slots/slots.ts";
import { authorizeDownload, valueOf } from "./file-download.ts";
import { authorizeUpload, uploadParams } from "./file-upload.ts";
import { createFileUris } from "./file-uri.ts";
import { serveCaller } from "./serve-caller.ts";

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
