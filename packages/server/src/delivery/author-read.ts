import {
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { onAbort, within } from "@sluice/core/async";
import type { AnswersFor, ReadOthers } from "../calls/resource-owner.ts";

/** Longest wait for the author's handler: clients of the SDK give up after this time, too. */
const readTimeoutMs = 60_000;

/** A call about a URI that the author of a server may have registered. */
export interface AuthorCall {
  readonly ctx: ServerContext;
  readonly uri: string;
  readonly isElsewhere: AnswersFor;
  readonly readOthers: ReadOthers;
}

/**
 * What the author's `resources/read` gives; `undefined` for a URI that comes to this Sluice. The author's handler hears when the
 * client goes away, and after 60 s without an answer, which is `timeout`. Its errors pass as they are; one that says that there
 * is no such resource is `not_found`, unless the author lists it.
 */
export async function readAsAuthor(call: AuthorCall): Promise<ReadResourceResult | undefined> {
  const { ctx, uri, readOthers } = call;
  const ending = new AbortController();
  const { signal } = ending;
  // the one ends with a cancelled call, the other with the connection of the request
  const removers = [ctx.mcpReq.signal, ctx.http?.req?.signal].map((given) =>
    onAbort(given, (reason) => ending.abort(reason)),
  );
  try {
    signal.throwIfAborted();
    const answer = readOthers(uri, { ...ctx, mcpReq: { ...ctx.mcpReq, signal } });
    return await within(answer, { timeoutMs: readTimeoutMs, expired, signal });
  } catch (error) {
    ending.abort(error);
    throw await readError(call, error);
  } finally {
    for (const remove of removers) remove();
  }
}

function expired(): SluiceError {
  return new SluiceError("timeout", `sluice: read: the author's handler took ${readTimeoutMs} ms`);
}

/** What the author disabled does not exist; the SDK says of it that it is disabled. */
async function readError({ ctx, uri, isElsewhere }: AuthorCall, error: unknown): Promise<unknown> {
  if (!(error instanceof ProtocolError) || !absences.has(error.code)) return error;
  if (await isElsewhere(uri, ctx)) return error;
  return new SluiceError("not_found", "sluice: read: the author has no such resource", {
    cause: error,
  });
}

/** What SDKs say of a resource that is missing or disabled, and authors of parameters, too. */
const absences: ReadonlySet<number> = new Set([
  ProtocolErrorCode.InvalidParams,
  ProtocolErrorCode.ResourceNotFound,
]);
