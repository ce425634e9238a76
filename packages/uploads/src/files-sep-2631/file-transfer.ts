import {
  AUTHORIZE_DOWNLOAD_METHOD,
  AUTHORIZE_UPLOAD_METHOD,
  type FileValue,
} from "@sluice/core/internal";
import type { AnyCall, AnyMcpServer, Sluice } from "@sluice/server";
import { callerOf, callInV2, revisionOf, serverInV2 } from "@sluice/server/internal";
import { z } from "zod/v4";
import { userOf } from "../slots/slot-token.ts";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { authorizeDownload, valueOf, type DownloadCaller } from "./file-download.ts";
import { faultFor } from "./file-fault.ts";
import type { FileArgument, FileInputTerms } from "./file-input.ts";
import { authorizeUpload, uploadParams } from "./file-upload.ts";
import { createFileUris } from "./file-uri.ts";
import { openInput } from "./open-input.ts";

/** The server and the context that a tool was called with. */
export type ToolCall = AnyCall;

/**
 * Files as SEP-2631 moves them (draft of 2026-06-16, experimental): over the slots of the uploads and the download
 * grants of the Sluice.
 */
export interface FileTransfer {
  /** Serves `files/authorizeUpload` (§6) and `files/authorizeDownload` (§8). Gives the same server back. */
  attach<Mcp extends AnyMcpServer>(mcp: Mcp): Mcp;
  /**
   * The file of an argument that was declared with `fileInput(terms)`, whether its bytes came in the argument, were
   * uploaded before (§4, §7), or are fetched from the host that handed it over. Throws a `ProtocolError` with `data.reason` for what the terms do not allow.
   */
  open(argument: FileArgument, terms: FileInputTerms, call: ToolCall): Promise<UploadedFile>;
  /**
   * A resource as a tool returns it in `structuredContent` (§8): with its size and SHA-256, which takes reading it once
   * where storage does not know it. The URI is good for an hour, for the caller and this version only.
   */
  value(resourceUri: string, call: ToolCall): Promise<FileValue>;
}

/** Options of `createFileTransfer`. */
export interface FileTransferOptions {
  /**
   * Origins from which files that a host hands over are fetched, beside HTTPS at public addresses: exact, such as
   * `http://127.0.0.1:8080`, or with one open label, such as `https://*.example.com`. Default: none. In runtimes other than
   * Node they are the only ones.
   */
  readonly trustedOrigins?: readonly string[];
}

/** Makes the file transfer of a Sluice and its uploads. */
export function createFileTransfer(
  sluice: Sluice,
  slots: Slots,
  { trustedOrigins = [] }: FileTransferOptions = {},
): FileTransfer {
  const { host } = sluice;
  const uris = createFileUris(host);

  /** Works for the caller; what goes wrong becomes an error of the protocol. */
  async function serve<T>(
    call: ToolCall,
    work: (caller: DownloadCaller) => T | Promise<T>,
  ): Promise<T> {
    try {
      const { mcp, ctx } = callInV2(call);
      const caller = callerOf(ctx, mcp);
      const identity = await host.identify(caller);
      const { signal } = ctx.mcpReq;
      const owner = userOf(identity.principal);
      const address = host.addressOf(caller);
      return await work({ identity, owner, address, revision: revisionOf(mcp), signal });
    } catch (error) {
      throw faultFor(error, host.onError);
    }
  }

  return {
    attach(given) {
      const mcp = serverInV2(given);
      mcp.server.setRequestHandler(
        AUTHORIZE_UPLOAD_METHOD,
        { params: uploadParams, result: anyResult },
        (params, ctx) =>
          serve({ mcp, ctx }, async (caller) => ({
            ...(await authorizeUpload({ slots, uris }, params, caller)),
          })),
      );
      mcp.server.setRequestHandler(
        AUTHORIZE_DOWNLOAD_METHOD,
        { params: z.looseObject({ uri: z.string() }), result: anyResult },
        ({ uri }, ctx) =>
          serve({ mcp, ctx }, async (caller) => ({
            ...(await authorizeDownload({ host, uris }, uri, caller)),
          })),
      );
      return given;
    },
    open: (argument, terms, call) =>
      serve(call, ({ owner, signal }) =>
        openInput({ slots, uris, trustedOrigins, onError: host.onError }, argument, {
          terms,
          owner,
          signal,
        }),
      ),
    value: (resourceUri, call) =>
      serve(call, (caller) => valueOf({ host, uris }, resourceUri, caller)),
  };
}

const anyResult = z.looseObject({});
