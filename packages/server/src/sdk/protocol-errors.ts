import {
  ProtocolError,
  ProtocolErrorCode,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { signInFault, faultOf, type RpcFault } from "./rpc-fault.ts";
import { isStreaming } from "../delivery/client-streaming.ts";
import { replySlotOf } from "../http/reply-slot.ts";
import { adviceOf } from "./advice.ts";
import { revisionOf } from "./request-caller.ts";

/** The request that a handler answers. */
interface HandlerRequest {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly uri?: string;
}

/** Turns what the handlers of one Sluice throw into JSON-RPC errors. */
export interface ProtocolErrors {
  /** Runs a handler of a specified method. Rejects with the row of the error table for what it throws. */
  translate<Result>(request: HandlerRequest, run: () => Promise<Result>): Promise<Result>;
}

interface ProtocolErrorsOptions {
  readonly resourceMetadataUrl: string | undefined;
  /** Gets faults that clients see only as `internal`. */
  readonly onError: (error: unknown) => void;
}

/** Makes the translation of one Sluice. */
export function createProtocolErrors({
  resourceMetadataUrl,
  onError,
}: ProtocolErrorsOptions): ProtocolErrors {
  return {
    async translate({ mcp, ctx, uri }, run) {
      try {
        return await run();
      } catch (error) {
        // the SDK and the author's own handlers throw errors of the protocol
        if (error instanceof ProtocolError) throw error;
        const revision = revisionOf(mcp);
        if (SluiceError.is(error) && error.code === "unauthenticated") {
          const slot = replySlotOf(ctx.http?.req);
          if (slot) slot.fault = signInFault(resourceMetadataUrl, revision);
        }
        const suggestion = adviceOf(error, isStreaming(mcp, ctx));
        const fault = faultOf(error, revision, { uri, suggestion });
        if (fault.data.reason === "internal" && !ctx.mcpReq.signal.aborted) onError(error);
        throw toProtocolError(fault);
      }
    },
  };
}

/** A fault as the SDK's handlers throw it. */
export function toProtocolError({ code, message, data }: RpcFault): ProtocolError {
  return new ProtocolError(code, message, data);
}

/** The answer of a server to a method that it cannot serve here. */
export function methodNotFound(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.MethodNotFound, message);
}
