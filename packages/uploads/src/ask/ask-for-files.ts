import {
  type McpServer,
  type Progress,
  ProtocolError,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { backgroundClock, systemClock } from "@sluice/core/internal";
import type { AnyCall } from "@sluice/server";
import { callInV2, type Host, showsApps } from "@sluice/server/internal";
import type { Fields } from "../elicitation/fields.ts";
import type { GivenAnswer, UnansweredPage, UploadPages } from "../page/upload-pages.ts";
import type { Slots } from "../slots/slots.ts";
import { errorForTool } from "../slots/upload-error.ts";
import { ResultAsker } from "./ask-in-result.ts";
import { SessionAsker, notifyComplete, passesNoQuestions } from "./ask-in-session.ts";
import { StatelessAsker, failingResult } from "./ask-stateless.ts";
import { AnswerConfirmation, type FilesOutcome } from "./confirm-answer.ts";
import { QuestionStates } from "./elicit-state.ts";
import { isStateless, isStdio, noEndpoint, noUploadId, wayTo } from "./elicit-way.ts";
import type { PendingUploads } from "./pending-uploads.ts";
import { identifyAsker, reserveQuestion } from "./reserve-question.ts";

/** What to ask the user for. */
export interface FileRequest<F extends Fields = Fields> {
  /** Why the files are wanted, for the user to read. The same again when the call is repeated. */
  readonly message: string;
  /** Name → field. At least one is a file. The same again when the call is repeated. */
  readonly fields: F;
  /** How long the user may take, in milliseconds, at most an hour; a page at most 15 minutes. Default: 15 minutes. */
  readonly ttlMs?: number;
  /**
   * The tool's argument that is declared with `uploadIdInput()`, as it came: with it the tool works in hosts that can be asked
   * nothing. Pass it also while it is `undefined`.
   */
  readonly uploadId?: string | undefined;
  /**
   * Receives the client's `notifications/progress`, in a session; asking for them is what this is for. In the stateless
   * protocol no call is open while files come: `progress(uploadId)` tells what has.
   */
  readonly onProgress?: (progress: Progress) => void;
}

/** What is known of a tool that asks. */
interface AskingTool {
  /** Whether it is registered with the App that asks: a host with Apps shows it in place of a page. Default false. */
  readonly hasApp: boolean;
}

/** {@link AskForFiles}, as our own tools use it. */
export type AskInTool = <const F extends Fields, Call extends AnyCall = AnyCall>(
  request: FileRequest<F>,
  call: Call,
  tool?: AskingTool,
) => Promise<FilesOutcome<F, Call>>;

/** Asks the user for files from inside a tool. `call`: the server of the tool, and the context that it was called with. */
export type AskForFiles = <const F extends Fields, Call extends AnyCall = AnyCall>(
  request: FileRequest<F>,
  call: Call,
) => Promise<FilesOutcome<F, Call>>;

interface AskingParts {
  readonly host: Host;
  readonly slots: Slots;
  readonly pages: UploadPages;
  readonly pending: PendingUploads;
  /** Takes an answer that came late, as the page's own. */
  readonly takeAnswer: (page: UnansweredPage, given: GivenAnswer) => Promise<void>;
  /** Whether this process has routes for uploads. */
  readonly isServed: () => boolean;
}

/**
 * Makes the function that asks: clients with `elicitation.binary` directly, others on a page, and those that can be asked
 * nothing by the tool's answer.
 */
export function createAskForFiles({
  host,
  slots,
  pages,
  pending,
  takeAnswer,
  isServed,
}: AskingParts): AskInTool {
  const { onError } = host;
  const confirmation = new AnswerConfirmation({ slots, pages, onError });
  const states = new QuestionStates(host);
  const stateless = new StatelessAsker({ confirmation, states, pages });
  const inResult = new ResultAsker({ host, confirmation, pending, pages, slots, takeAnswer });
  const inSession = new SessionAsker({ confirmation, inResult, pages, onError });

  async function ask<F extends Fields>(
    { mcp, ctx }: { readonly mcp: McpServer; readonly ctx: ServerContext },
    request: FileRequest<F>,
    { hasApp }: AskingTool,
  ): Promise<FilesOutcome<F>> {
    const { message, fields, onProgress, uploadId } = request;
    const isInApp = hasApp && showsApps(mcp, ctx);
    const way = wayTo(mcp, ctx);
    const begunAt = systemClock.now();
    const canRepeat = isStateless(mcp) || Object.hasOwn(request, "uploadId");
    const until = canRepeat && !wantsProgress(ctx) ? begunAt + patienceMs : undefined;
    const asker = await identifyAsker(host, mcp, ctx);
    const call = { ctx, ...asker, message, fields, isInApp, until };
    // models fill arguments that they leave out
    if (uploadId !== undefined && uploadId !== "") {
      const outcome = await inResult.takeUp(call, uploadId);
      if (outcome.action !== "ask" && way.kind === "page" && !isStateless(mcp))
        await notifyComplete(ctx, uploadId).catch(onError);
      return outcome;
    }
    const sealed = isStateless(mcp) ? ctx.mcpReq.requestState() : undefined;
    if (sealed !== undefined) return stateless.takeUp(call, way, sealed);
    if (isStdio(ctx) && !isServed()) throw noEndpoint();
    if (way.kind === "result" && !Object.hasOwn(request, "uploadId")) throw noUploadId(mcp);
    const reserved = await reserveQuestion(slots, call, way, {
      ...request,
      isForPage: !isStateless(mcp) && until !== undefined,
    });
    if (way.kind === "result") return inResult.ask(call, reserved);
    const isPage = way.kind === "page";
    if (isStateless(mcp))
      return isPage ? stateless.askOnPage(call, reserved) : stateless.ask(call, reserved);
    try {
      if (isPage) return await inSession.askOnPage(call, reserved);
      return await inSession.ask(call, reserved, onProgress);
    } catch (error) {
      if (!passesNoQuestions(error) || !Object.hasOwn(request, "uploadId")) throw error;
      return inResult.ask(call, await reserveQuestion(slots, call, { kind: "result" }, request));
    }
  }

  const askForFiles = async <F extends Fields>(
    request: FileRequest<F>,
    given: AnyCall,
    tool: AskingTool = { hasApp: false },
  ): Promise<FilesOutcome<F>> => {
    const { mcp, ctx } = callInV2(given);
    host.ensureOwn(mcp);
    try {
      return await keepAlive(ctx, () => ask({ mcp, ctx }, request, tool));
    } catch (error) {
      if (isStateless(mcp) && ProtocolError.isInstance(error)) return failingResult(error);
      throw ctx.mcpReq.signal.aborted ? error : errorForTool(error, onError);
    }
  };
  // calls of SDK v1 are never stateless, and only those get an `InputRequiredResult`
  return askForFiles as AskInTool;
}

/** How often a host hears that its call goes on: some give up after 30 s without a word. */
const progressEveryMs = 15_000;

/** How long hosts wait for a call that says nothing: SDKs give up after 60 s. */
const patienceMs = 55_000;

/** Whether the host of a call wants to hear of its progress: many then wait as long as there is some. */
function wantsProgress({ mcpReq }: ServerContext): boolean {
  return mcpReq._meta?.progressToken !== undefined;
}

/** Works, and tells a host that wants to hear of progress that its call goes on. */
async function keepAlive<T>({ mcpReq }: ServerContext, work: () => Promise<T>): Promise<T> {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return work();
  let cancel = backgroundClock.schedule(tell, progressEveryMs);
  function tell(): void {
    // progress must grow: time does, also over two questions of one call, and so small it stays below what a tool counts
    const progress = systemClock.now() / Number.MAX_SAFE_INTEGER;
    const params = {
      progressToken: progressToken!,
      progress,
      message: "Waiting for the user’s file",
    };
    cancel = backgroundClock.schedule(tell, progressEveryMs);
    // a host that does not hear it gives up as it would
    void (async () => mcpReq.notify({ method: "notifications/progress", params }))().catch(
      () => {},
    );
  }
  try {
    return await work();
  } finally {
    cancel();
  }
}
