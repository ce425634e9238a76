import {
  inputRequired,
  ProtocolError,
  ProtocolErrorCode,
  type InputRequest,
  type InputRequiredResult,
  type McpServer,
  type Progress,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError, tokenLifetimes, type Principal } from "@sluice/core";
import { ELICIT_METHOD } from "@sluice/core/wire";
import type { AnyMcpServer, ExtraV1 } from "@sluice/server";
import { callerOf, callInV2, revisionOf, type Host } from "@sluice/server/transport";
import { z } from "zod";
import {
  fileFieldsOf,
  questionOf,
  termsOf,
  type BinaryQuestion,
  type Fields,
} from "./elicit-fields.ts";
import { awaitAnswer, type UploadPages } from "./elicit-page.ts";
import {
  createSettlement,
  type FilesOutcome,
  type GivenSettlement,
  type Settling,
} from "./elicit-settlement.ts";
import { createQuestionStates, type QuestionState } from "./elicit-state.ts";
import { letBinaryPass, wayTo, type Way } from "./elicit-way.ts";
import type { PageOutcome } from "../page/page-outcome.ts";
import { newId } from "../slots/random-id.ts";
import type { Slot, Slots } from "../slots/slots.ts";

/** What to ask the user for. */
export interface FileRequest<F extends Fields = Fields> {
  /** The server that the tool is registered on. */
  readonly mcp: AnyMcpServer;
  /** Why the files are wanted, for the user to read. The same again when the call is repeated. */
  readonly message: string;
  /** Name → field. At least one is a file. The same again when the call is repeated. */
  readonly fields: F;
  /** How long the user may take, in milliseconds, at most an hour; a page at most 15 minutes. Default 15 minutes. */
  readonly ttlMs?: number;
  /**
   * Hears of the client's `notifications/progress`, in the legacy era; asking for them is what this is for. In the
   * modern era no call is open while files come: `progress(uploadId)` tells what has.
   */
  readonly onProgress?: (progress: Progress) => void;
}

/** Asks the user for files from inside a tool. */
export type RequestFiles = <const F extends Fields>(
  ctx: ServerContext | ExtraV1,
  request: FileRequest<F>,
) => Promise<FilesOutcome<F>>;

/** Makes the function that asks. Without `pages` only clients with `elicitation.binary` can be asked. */
export function createRequestFiles(host: Host, slots: Slots, pages?: UploadPages): RequestFiles {
  const states = createQuestionStates(host);
  const settlement = createSettlement(slots, host.onError);

  /** Who the files will belong to: a session is no part of it, since an upload is another request. */
  async function asker(
    mcp: McpServer,
    ctx: ServerContext,
  ): Promise<Pick<Settling, "principal" | "owner">> {
    const { principal, mayMint, owner } = await host.identify(callerOf(ctx, mcp));
    if (!mayMint)
      throw new SluiceError("unauthenticated", "uploads: nobody vouches for the caller");
    if (!principal || principal.subject === "") return { principal: undefined, owner };
    const { sessionId: _session, ...user } = principal;
    return { principal: user, owner };
  }

  function reserveAll(principal: Principal | undefined, way: Way, request: FileRequest): Asked {
    const isPage = way.kind === "page";
    const auth = isPage || !principal ? "self" : "bound";
    const { maxTtlMs } = tokenLifetimes.upload[auth];
    const ttlMs = Math.min(request.ttlMs ?? defaultTtlMs, maxTtlMs);
    const reserved = new Map<string, Slot>();
    for (const [name, field] of fileFieldsOf(request.fields)) {
      const terms = termsOf(field, isPage ? {} : way.limits);
      reserved.set(
        name,
        slots.reserve(principal, terms, { ttlMs, ...(isPage && { selfAuthenticating: true }) }),
      );
    }
    if (reserved.size === 0) throw new TypeError("requestFiles: no field is a file");
    const question = questionOf(request, reserved, auth);
    return { question, slots: reserved, expiresAt: Date.now() + ttlMs };
  }

  /** Tells the page how it ended; a page that is not told says that its time is over. */
  async function conclude(pageId: string | undefined, outcome: PageOutcome): Promise<void> {
    if (pageId !== undefined) await pages!.conclude(pageId, outcome).catch(host.onError);
  }

  async function settle<F extends Fields>(
    settling: Settling<F>,
    given: GivenSettlement,
    pageId: string | undefined,
  ): Promise<FilesOutcome<F>> {
    try {
      const outcome = await settlement.settle(settling, given);
      const refusal = given.isFromPage ? "declined" : "cancelled";
      await conclude(pageId, outcome.action === "accept" ? "accepted" : refusal);
      return outcome;
    } catch (error) {
      await conclude(pageId, settling.ctx.mcpReq.signal.aborted ? "cancelled" : "failed");
      throw error;
    }
  }

  /** Legacy: a request to the client, while the call of the tool stays open. */
  async function askNow<F extends Fields>(
    settling: Settling<F>,
    way: Way,
    request: FileRequest,
  ): Promise<FilesOutcome<F>> {
    const { ctx, principal } = settling;
    const { question, slots: expected, expiresAt } = reserveAll(principal, way, request);
    const pageId = way.kind === "page" ? newId() : undefined;
    let asked: { readonly raw: unknown; readonly isFromPage: boolean };
    try {
      asked =
        pageId === undefined
          ? {
              raw: await send(ctx, question, expiresAt, request.onProgress),
              isFromPage: false,
            }
          : await askOnPage(settling, pageId, { question, expiresAt });
    } catch (error) {
      await settlement.revoke(principal, expected);
      await conclude(pageId, "cancelled");
      ctx.mcpReq.signal.throwIfAborted();
      throw error;
    }
    return settle(settling, { ...asked, expected }, pageId);
  }

  async function askOnPage(
    { ctx, owner }: Settling,
    pageId: string,
    { question, expiresAt }: Pick<Asked, "question" | "expiresAt">,
  ): Promise<{ raw: unknown; isFromPage: boolean }> {
    const url = await pages!.pageUrl({ pageId, question, expiresAt, owner });
    const params = { mode: "url", message: question.message, url, elicitationId: pageId };
    const stop = new AbortController();
    const signal = AbortSignal.any([ctx.mcpReq.signal, stop.signal]);
    const fromPage = awaitAnswer(pages!, pageId, { waitMs: expiresAt - Date.now(), signal }).then(
      (raw) => ({ raw, isFromPage: true }),
    );
    // "accept" only says that the user agreed to open the page
    const fromClient = send(ctx, params, expiresAt).then((given) =>
      isConsent(given) ? fromPage : { raw: given, isFromPage: false },
    );
    // the MCP Inspector agrees when it hears that the page is done: neither is waited for alone
    const outcomes = [fromPage, fromClient];
    for (const outcome of outcomes) outcome.catch(() => {});
    const outcome = await Promise.race(outcomes).finally(() => stop.abort());
    if (!outcome.isFromPage) return outcome;
    if (outcome.raw === undefined) throw tooLate();
    await ctx.mcpReq
      .notify({ method: "notifications/elicitation/complete", params: { elicitationId: pageId } })
      .catch(host.onError);
    return outcome;
  }

  /** Modern: the call ends with the question, and is repeated with the answer and our sealed state. */
  async function askLater(
    { ctx, principal, owner, message, fields }: Settling,
    way: Way,
    request: FileRequest,
  ): Promise<{ action: "ask"; result: InputRequiredResult }> {
    const { question, slots: reserved, expiresAt } = reserveAll(principal, way, request);
    const kept = Object.fromEntries(
      [...reserved].map(([name, { uploadId, expiresAt: endsAt }]) => [
        name,
        { uploadId, expiresAt: endsAt },
      ]),
    );
    const context = { principal, message, fields };
    if (way.kind === "binary") {
      letBinaryPass(ctx);
      const state = states.seal({ expiresAt, slots: kept }, context);
      return ask({ method: ELICIT_METHOD, params: question }, state);
    }
    const pageId = newId();
    const url = await pages!.pageUrl({ pageId, question, expiresAt, owner });
    const state = states.seal({ expiresAt, slots: kept, pageId }, context);
    return ask(inputRequired.elicitUrl({ message, url }), state);
  }

  /** Modern, on the repeated call. */
  async function takeUp<F extends Fields>(
    settling: Settling<F>,
    state: QuestionState,
    way: Way,
  ): Promise<FilesOutcome<F>> {
    const { ctx, fields, principal, message } = settling;
    const { pageId, expiresAt } = state;
    const limits = way.kind === "binary" ? way.limits : {};
    const expected = new Map(
      fileFieldsOf(fields).map(([name, field]) => [
        name,
        { ...state.slots[name]!, terms: termsOf(field, limits) },
      ]),
    );
    let raw = ctx.mcpReq.inputResponses?.[inputKey];
    const isFromPage = pageId !== undefined && isConsent(raw);
    if (isFromPage) {
      const waitMs = Math.min(pageWaitMs, expiresAt - Date.now());
      try {
        raw = await awaitAnswer(pages!, pageId, { waitMs, signal: ctx.mcpReq.signal });
      } catch (error) {
        // its state was used: no other call can take the answer
        await settlement.revoke(principal, expected);
        await conclude(pageId, "cancelled");
        throw error;
      }
      if (raw === undefined) {
        // the client calls again by itself when there is nothing to ask
        const requestState = states.seal(state, { principal, message, fields });
        return { action: "ask", result: inputRequired({ requestState }) };
      }
    }
    return settle(settling, { expected, raw, isFromPage }, pageId);
  }

  return async (given, request) => {
    const { message, fields } = request;
    const { mcp, ctx } = callInV2({ mcp: request.mcp, ctx: given });
    const isModern = revisionOf(mcp) === "modern";
    try {
      const way = wayTo(mcp, ctx, pages !== undefined);
      const settling = { ctx, ...(await asker(mcp, ctx)), message, fields };
      if (!isModern) return await askNow(settling, way, request);
      const sealed = ctx.mcpReq.requestState();
      if (sealed === undefined) return await askLater(settling, way, request);
      const state = await states.open(sealed, settling).catch(rethrowState);
      return await takeUp(settling, state, way);
    } catch (error) {
      if (isModern && ProtocolError.isInstance(error))
        return { action: "ask", result: fail(error) };
      throw error;
    }
  };
}

interface Asked {
  readonly question: BinaryQuestion;
  readonly slots: ReadonlyMap<string, Slot>;
  readonly expiresAt: number;
}

const defaultTtlMs = 900_000;
/** The only question of its call. */
const inputKey = "files";
/** How long a repeated call waits for the page: clients give up on a request after 60 s. */
const pageWaitMs = 45_000;

/** Absent on a call that was repeated only to wait. */
function isConsent(raw: unknown): boolean {
  return raw === undefined || consentSchema.safeParse(raw).success;
}

const consentSchema = z.looseObject({ action: z.literal("accept") });

function ask(
  request: object,
  requestState: string,
): { action: "ask"; result: InputRequiredResult } {
  const inputRequests = { [inputKey]: request as InputRequest };
  return { action: "ask", result: inputRequired({ inputRequests, requestState }) };
}

/** Asks a client of the legacy era, for as long as its question is good. */
async function send(
  ctx: ServerContext,
  params: object,
  expiresAt: number,
  onProgress?: (progress: Progress) => void,
): Promise<unknown> {
  const timeout = Math.max(1, expiresAt - Date.now());
  try {
    return await ctx.mcpReq.send(
      { method: ELICIT_METHOD, params: { ...params } },
      z.looseObject({}),
      { timeout, signal: ctx.mcpReq.signal, ...(onProgress && { onprogress: onProgress }) },
    );
  } catch (error) {
    ctx.mcpReq.signal.throwIfAborted();
    if (Date.now() >= expiresAt) throw tooLate();
    throw new SluiceError("protocol", "uploads: the client could not ask the user", {
      cause: error,
    });
  }
}

function tooLate(): SluiceError {
  return new SluiceError(
    "timeout",
    "uploads: the user did not answer in time; call the tool again",
  );
}

/** The protocol's answer to a state that is not ours (2026-07-28, multi round-trip requests). */
function rethrowState(error: unknown): never {
  if (!SluiceError.is(error) || (error.code !== "invalid_argument" && error.code !== "expired"))
    throw error;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message, {
    reason: "invalid_request_state",
  });
}

/**
 * A result that is an error as soon as the SDK reads it: what a tool throws becomes a result with `isError`, and
 * the protocol wants these two to be JSON-RPC errors.
 */
function fail(error: ProtocolError): InputRequiredResult {
  return {
    resultType: "input_required",
    get inputRequests(): never {
      throw error;
    },
  };
}
