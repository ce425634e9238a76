import {
  ProtocolError,
  type McpServer,
  type Progress,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { AnyMcpServer, ExtraV1 } from "@sluice/server";
import { callerOf, callInV2, revisionOf, type Host } from "@sluice/server/transport";
import type { UploadPages } from "../page/upload-pages.ts";
import { userOf } from "../slots/slot-token.ts";
import type { Slots } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import { createSessionAsker } from "./ask-in-session.ts";
import { createStatelessAsker, failingResult } from "./ask-stateless.ts";
import { createAnswerConfirmation, type AskingCall, type FilesOutcome } from "./confirm-answer.ts";
import type { Fields } from "./elicit-fields.ts";
import { createQuestionStates } from "./elicit-state.ts";
import { wayTo } from "./elicit-way.ts";
import { reserveQuestion } from "./reserve-question.ts";

/** What to ask the user for. */
export interface FileRequest<F extends Fields = Fields> {
  /** The server that the tool is registered on. */
  readonly mcp: AnyMcpServer;
  /** Why the files are wanted, for the user to read. The same again when the call is repeated. */
  readonly message: string;
  /** Name → field. At least one is a file. The same again when the call is repeated. */
  readonly fields: F;
  /** How long the user may take, in milliseconds, at most an hour; a page at most 15 minutes. Default: 15 minutes. */
  readonly ttlMs?: number;
  /**
   * Receives the client's `notifications/progress`, in a session; asking for them is what this is for. In the stateless
   * protocol no call is open while files come: `progress(uploadId)` tells what has.
   */
  readonly onProgress?: (progress: Progress) => void;
}

/** Asks the user for files from inside a tool. */
export type RequestFiles = <const F extends Fields>(
  ctx: ServerContext | ExtraV1,
  request: FileRequest<F>,
) => Promise<FilesOutcome<F>>;

/** Makes the function that asks: clients with `elicitation.binary` directly, others on a page. */
export function createRequestFiles(host: Host, slots: Slots, pages: UploadPages): RequestFiles {
  const { onError } = host;
  const confirmation = createAnswerConfirmation({ slots, pages, onError });
  const inSession = createSessionAsker({ confirmation, pages, onError });
  const states = createQuestionStates(host);
  const stateless = createStatelessAsker({ confirmation, states, pages });

  async function callerIn(
    mcp: McpServer,
    ctx: ServerContext,
  ): Promise<Pick<AskingCall, "principal" | "owner">> {
    const { principal, mayMint, owner } = await host.identify(callerOf(ctx, mcp));
    if (!mayMint) throw uploadError("unauthenticated", "the caller is not authenticated");
    return { principal: userOf(principal), owner };
  }

  async function ask<F extends Fields>(
    { mcp, ctx }: { readonly mcp: McpServer; readonly ctx: ServerContext },
    request: FileRequest<F>,
  ): Promise<FilesOutcome<F>> {
    const { message, fields, onProgress } = request;
    const way = wayTo(mcp, ctx);
    const call = { ctx, ...(await callerIn(mcp, ctx)), message, fields };
    const sealed = isStateless(mcp) ? ctx.mcpReq.requestState() : undefined;
    if (sealed !== undefined) return stateless.takeUp(call, way, sealed);
    const reserved = await reserveQuestion(slots, call, way, request);
    const isPage = way.kind === "page";
    if (isStateless(mcp))
      return isPage ? stateless.askOnPage(call, reserved) : stateless.ask(call, reserved);
    return isPage ? inSession.askOnPage(call, reserved) : inSession.ask(call, reserved, onProgress);
  }

  return async (given, request) => {
    const { mcp, ctx } = callInV2({ mcp: request.mcp, ctx: given });
    try {
      return await ask({ mcp, ctx }, request);
    } catch (error) {
      if (isStateless(mcp) && ProtocolError.isInstance(error)) return failingResult(error);
      throw error;
    }
  };
}

function isStateless(mcp: McpServer): boolean {
  return revisionOf(mcp) === "modern";
}
