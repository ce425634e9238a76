import {
  AUTHORIZE_DOWNLOAD_METHOD,
  AUTHORIZE_UPLOAD_METHOD,
  type FileValue,
} from "@sluice/core/wire";
import type { AnyCall, AnyMcpServer, Sluice } from "@sluice/server";
import { callerOf, callInV2, serverInV2 } from "@sluice/server/transport";
import { z } from "zod";
import { userOf } from "../slots/slot-token.ts";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { authorizeDownload, valueOf } from "./file-download.ts";
import { faultFor } from "./file-fault.ts";
import type { FileInputTerms } from "./file-input.ts";
import { authorizeUpload, openInput, uploadParams } from "./file-upload.ts";
import { createFileUris } from "./file-uri.ts";

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
   * The file of an argument that was declared with `fileInput(terms)`, whether its bytes came in the argument or were
   * uploaded before (§4, §7). Throws a `ProtocolError` with `data.reason` for what the terms do not allow.
   */
  open(argument: string, terms: FileInputTerms, call: ToolCall): Promise<UploadedFile>;
  /**
   * A resource as a tool returns it in `structuredContent` (§8): with its size and SHA-256, which takes reading it once
   * where storage does not know it. The URI is good for an hour, for the caller and this version only.
   */
  value(resourceUri: string, call: ToolCall): Promise<FileValue>;
}

/** Makes the file transfer of a Sluice and its uploads. */
export function createFileTransfer(sluice: Sluice, slots: Slots): FileTransfer {
  const { host } = sluice;
  const uris = createFileUris(host);

  async function identify(call: ToolCall) {
    const { mcp, ctx } = callInV2(call);
    const identity = await host.identify(callerOf(ctx, mcp));
    return { identity, owner: userOf(identity.principal) };
  }

  async function guarded<T>(run: () => Promise<T>): Promise<T> {
    return run().catch((error: unknown) => {
      throw faultFor(error, host.onError);
    });
  }

  return {
    attach(given) {
      const mcp = serverInV2(given);
      mcp.server.setRequestHandler(
        AUTHORIZE_UPLOAD_METHOD,
        { params: uploadParams, result: anyResult },
        (params, ctx) =>
          guarded(async () => {
            const { identity, owner } = await identify({ mcp, ctx });
            return {
              ...authorizeUpload({ slots, uris }, params, { mayMint: identity.mayMint, owner }),
            };
          }),
      );
      mcp.server.setRequestHandler(
        AUTHORIZE_DOWNLOAD_METHOD,
        { params: z.looseObject({ uri: z.string() }), result: anyResult },
        ({ uri }, ctx) =>
          guarded(async () => {
            const { identity, owner } = await identify({ mcp, ctx });
            const { signal } = ctx.mcpReq;
            return {
              ...(await authorizeDownload({ host, uris }, uri, { identity, owner, signal })),
            };
          }),
      );
      return given;
    },
    open: (argument, terms, call) =>
      guarded(async () => {
        const { owner } = await identify(call);
        return openInput({ slots, uris }, argument, { terms, owner, signal: signalOf(call) });
      }),
    value: (resourceUri, call) =>
      guarded(async () => {
        const { identity, owner } = await identify(call);
        return valueOf({ host, uris }, resourceUri, { identity, owner, signal: signalOf(call) });
      }),
  };
}

function signalOf(call: ToolCall): AbortSignal {
  return callInV2(call).ctx.mcpReq.signal;
}

const anyResult = z.looseObject({});
