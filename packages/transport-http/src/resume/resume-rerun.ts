import type {
  AuthInfo,
  JSONRPCMessage,
  McpServer,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/server";
import { SluiceError, type StreamPage } from "@sluice/core";
import { noteRequest, notesOf } from "@sluice/server/transport";
import type { Journal } from "./resume-journal.ts";
import { formatQuestionId } from "./resume-link.ts";
import {
  askName,
  cancelledBy,
  isRequest,
  isResponse,
  noAnswer,
  type RpcId,
  type RpcMessage,
  type RpcRequest,
} from "./resume-message.ts";
import type { Run } from "./resume-run.ts";

/** What a request is run again with. */
export interface Rerunnable {
  /** The request of the client, as it came. */
  readonly call: RpcRequest;
  /** `params` of the `initialize` that opened its session. */
  readonly initialize: Readonly<Record<string, unknown>>;
}

/** What {@link startRerun} needs. */
export interface RerunOptions extends Rerunnable {
  /** A new server with the same tools, not connected. */
  readonly server: McpServer;
  /** What was said and answered before, up to now. */
  readonly page: StreamPage;
  readonly journal: Journal;
  readonly epoch: number;
  readonly sessionId: string;
  readonly owner: string;
  /** Who picked the stream up. */
  readonly authInfo: AuthInfo | undefined;
  /** Headers of that request. */
  readonly request: Request;
  readonly onError: (error: unknown) => void;
}

/**
 * Runs a request again from its start, after the process that worked on it is gone. What it says is
 * held against what was said before, in order: that much is not written again, and its questions get
 * the answers that were given then. From there on it goes on like the first run. A request that does not
 * say the same again ends with an error, for nobody knows what it would do.
 */
export function startRerun(options: RerunOptions): Run {
  const { server, call, initialize, page, journal, epoch, authInfo, onError } = options;
  const { sessionId, owner } = options;
  const said = page.events.map(({ text }) => JSON.parse(text) as RpcMessage);
  const answers = new Map(page.asks.map(({ ask, answer }) => [ask, answer]));
  /** Ids of the new server's requests by the ids that the client knows. */
  const local = new Map<string, RpcId>();
  /** And the other way round. */
  const known = new Map<RpcId, RpcId>();
  let opened: () => void;
  const opening = new Promise<void>((resolve) => void (opened = resolve));
  let asked = 0;

  const transport: Transport = {
    sessionId,
    async start() {},
    async send(message, sending) {
      await take(message as RpcMessage, sending);
    },
    async close() {
      transport.onclose?.();
    },
  };

  function tell(message: RpcMessage): void {
    // a copy: its signal is that of a connection which may be cut at any time
    const { url, headers } = options.request;
    const request = new Request(url, { headers });
    noteRequest(request, { address: notesOf(options.request).address });
    transport.onmessage?.(message as JSONRPCMessage, {
      request,
      ...(authInfo && { authInfo }),
    });
  }

  async function take(message: RpcMessage, sending?: TransportSendOptions): Promise<void> {
    if (isResponse(message) && message.id === openingId) return opened();
    const isOurs = isResponse(message)
      ? message.id === call.id
      : sending?.relatedRequestId === call.id;
    // what belongs to the session at large was heard, or missed, when it was said
    if (!isOurs || journal.isOver) return;
    const before = said.shift();
    if (before === undefined) return write(message);
    if (!isSame(before, message))
      return diverge(`it says ${nameOf(message)} where it said ${nameOf(before)}`);
    if (!isRequest(before)) return;
    const ask = askName(before.id);
    const answer = answers.get(ask);
    local.set(ask, message.id!);
    known.set(message.id!, before.id);
    if (answer === undefined) journal.open.set(ask, before.id);
    // when the server is done with sending it
    else if (answer !== noAnswer) queueMicrotask(() => give(ask, answer));
  }

  async function write(message: RpcMessage): Promise<void> {
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) {
      const requestId = known.get(cancelled);
      return journal.write({ ...message, params: { ...message.params, requestId } });
    }
    if (!isRequest(message)) return journal.write(message);
    // ids of this server begin anew: the client must not take them for those of the one before
    asked += 1;
    const id = formatQuestionId(journal.streamId, `rerun-${epoch}-${asked}`);
    local.set(askName(id), message.id);
    known.set(message.id, id);
    return journal.write({ ...message, id });
  }

  async function diverge(how: string): Promise<void> {
    onError(new SluiceError("internal", `resume: a request cannot be run again: ${how}`));
    await journal.fail("interrupted");
  }

  function give(ask: string, answer: string): void {
    const id = local.get(ask);
    if (id === undefined) return;
    local.delete(ask);
    tell({ jsonrpc: "2.0", id, ...(JSON.parse(answer) as object) });
  }

  async function run(): Promise<void> {
    await server.connect(transport);
    tell({ jsonrpc: "2.0", id: openingId, method: "initialize", params: initialize });
    await opening;
    tell({ jsonrpc: "2.0", method: "notifications/initialized" });
    tell(call);
  }

  journal.onEnd(() => void server.close().catch(onError));
  run().catch(async (error: unknown) => {
    onError(error);
    await journal.fail("interrupted");
  });

  return {
    journal,
    sessionId,
    owner,
    requestId: call.id,
    async deliver(ask, answer) {
      // it may come before the question is asked again
      answers.set(ask, answer);
      if (journal.open.delete(ask)) give(ask, answer);
    },
  };
}

const openingId = "sluice-initialize";

/** Requests must ask the same; of notifications, such as progress with times in it, the method is enough. */
function isSame(before: RpcMessage, now: RpcMessage): boolean {
  if (before.method !== now.method || isRequest(before) !== isRequest(now)) return false;
  if (isResponse(before) || isResponse(now)) return false;
  return !isRequest(before) || canonical(before.params) === canonical(now.params);
}

/** Text of a value, the same for every order of keys, without `_meta`. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) => {
    if (key === "_meta") return undefined;
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function nameOf({ method }: RpcMessage): string {
  return JSON.stringify(method ?? "its answer");
}
