import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { eachEvent } from "./resume-events.ts";
import type { Journal } from "./resume-journal.ts";
import type { RpcId, RpcMessage } from "./resume-message.ts";
import type { McpFetchHandler } from "./with-sluice.ts";

/** A request that this process is working on. */
export interface Run {
  readonly journal: Journal;
  readonly sessionId: string;
  /** Tag of the principal, in its session, whose request it is. */
  readonly owner: string;
  readonly requestId: RpcId;
  /** Gives the server the answer to one of its questions, at most once each. */
  deliver(ask: string, answer: string): Promise<void>;
}

/** What a run over a handler of the host needs. */
export interface RelayOptions {
  readonly handler: McpFetchHandler;
  /** The endpoint as the handler sees it. */
  readonly url: string;
  /** Headers of the request, for what is said to the server in its session later. */
  readonly headers: Headers;
  readonly mcpOptions: McpHandlerRequestOptions | undefined;
  /** Answer of the handler: the stream of events that goes into the journal. */
  readonly body: ReadableStream<Uint8Array>;
  readonly journal: Journal;
  readonly sessionId: string;
  readonly owner: string;
  readonly requestId: RpcId;
  readonly onError: (error: unknown) => void;
}

/**
 * Writes what a handler answers into a journal, at the pace of the handler: who reads the stream, or
 * goes away, makes no difference to it. When the journal ends before the answer, the request is cancelled.
 */
export function startRelay(options: RelayOptions): Run {
  const { handler, url, mcpOptions, journal, sessionId, owner, requestId, onError } = options;
  const { headers } = options;

  async function post(message: object): Promise<void> {
    const request = new Request(url, {
      method: "POST",
      headers: {
        ...sessionHeaders(headers),
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
    });
    const told = { ...mcpOptions, parsedBody: { jsonrpc: "2.0", ...message } };
    const response = await handler.fetch(request, told);
    await response.body?.cancel();
    if (!response.ok && response.status !== 404)
      throw new Error(`resume: the handler refused a message of the client: ${response.status}`);
  }

  /** SEP-1699: a tool may close the stream that it answers in; the handler then has the rest of it. */
  async function reopen(lastEventId: string): Promise<ReadableStream<Uint8Array> | undefined> {
    const request = new Request(url, {
      headers: {
        ...sessionHeaders(headers),
        accept: "text/event-stream",
        "last-event-id": lastEventId,
      },
    });
    const { parsedBody: _none, ...rest } = mcpOptions ?? {};
    const response = await handler.fetch(request, rest);
    if (response.ok && response.body) return response.body;
    await response.body?.cancel();
    return undefined;
  }

  async function relay(first: ReadableStream<Uint8Array>): Promise<void> {
    let body: ReadableStream<Uint8Array> | undefined = first;
    let lastEventId = "";
    let retryMs = 1_000;
    while (body) {
      await eachEvent(body, {
        signal: journal.ended,
        // also of a handler whose streams end again and again at once
        onRetry: (ms) => (retryMs = Math.min(Math.max(ms, 10), 60_000)),
        async onEvent({ id, data }) {
          if (id) lastEventId = id;
          if (data !== "") await journal.write(JSON.parse(data) as RpcMessage);
        },
      }).catch(onError);
      if (journal.ended.aborted || lastEventId === "") break;
      await journal.bell.wait(journal.bell.count, { ms: retryMs, signal: journal.ended });
      body = journal.ended.aborted ? undefined : await reopen(lastEventId);
    }
    await journal.fail("interrupted");
  }

  async function cancel(): Promise<void> {
    const params = { requestId, reason: "the stream of its answer is gone" };
    if (!journal.isAnswered) await post({ method: "notifications/cancelled", params });
  }

  relay(options.body).then(cancel).catch(onError);

  return {
    journal,
    sessionId,
    owner,
    requestId,
    async deliver(ask, answer) {
      const id = journal.open.get(ask);
      if (id === undefined) return;
      journal.open.delete(ask);
      try {
        await post({ id, ...(JSON.parse(answer) as object) });
      } catch (error) {
        journal.open.set(ask, id);
        throw error;
      }
    },
  };
}

/** What ties a message to its session and to whoever sends it; not what described another body. */
function sessionHeaders(headers: Headers): Record<string, string> {
  const kept = Object.fromEntries(headers);
  for (const name of ["content-length", "content-encoding", "transfer-encoding", "last-event-id"])
    delete kept[name];
  return kept;
}
