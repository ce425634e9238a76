import type {
  JSONRPCMessage,
  McpServer,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  cancelledBy,
  definedMembers,
  isRequest,
  isResponse,
  type LooseMessage,
  type RpcId,
} from "@sluice/core/internal";
import { noteRequest, notesOf } from "@sluice/server/internal";
import { formatQuestionId, noAnswer, questionName } from "../stream/question.ts";
import type { InterruptedCall } from "../stream/rerun.ts";
import type { RunningCall } from "../stream/stream-writer.ts";

/**
 * Runs a call again from its start. Its messages are compared with those of the first run, in order: equal ones are
 * not written again, and its requests get the responses that were given then. After them it continues like the
 * first run. A call that says something else ends with an error: its effects are unknown.
 */
export function rerunCall(
  interrupted: InterruptedCall,
  server: McpServer,
  onError: (error: unknown) => void,
): RunningCall {
  const { call, initialize, page, writer, epoch, sessionId, owner, authInfo } = interrupted;
  const firstRun = page.events.map(({ text }) => JSON.parse(text) as LooseMessage);
  const answers = new Map(page.asks.map(({ ask, answer }) => [ask, answer]));
  /** Ids of the new server's requests, by the names of the questions that the client knows. */
  const ownIds = new Map<string, RpcId>();
  /** Ids that the client knows, by those of the new server. */
  const clientIds = new Map<RpcId, RpcId>();
  let opened: () => void;
  const opening = new Promise<void>((resolve) => void (opened = resolve));
  let askCount = 0;

  const transport: Transport = {
    sessionId,
    async start() {},
    async send(message, sending) {
      await take(message as LooseMessage, sending);
    },
    async close() {
      transport.onclose?.();
    },
  };

  function tell(message: LooseMessage): void {
    // a copy without the signal: its connection may be cut at any time
    const { url, headers } = interrupted.request;
    const request = new Request(url, { headers });
    noteRequest(request, { address: notesOf(interrupted.request).address });
    transport.onmessage?.(message as JSONRPCMessage, definedMembers({ request, authInfo }));
  }

  async function take(message: LooseMessage, sending?: TransportSendOptions): Promise<void> {
    if (isResponse(message) && message.id === openingId) return opened();
    const isOurs = isResponse(message)
      ? message.id === call.id
      : sending?.relatedRequestId === call.id;
    // a message of the whole session was received, or missed, in the first run
    if (!isOurs || writer.isOver) return;
    const before = firstRun.shift();
    if (before === undefined) return write(message);
    if (!isSame(before, message))
      return diverge(`it says ${nameOf(message)} where it said ${nameOf(before)}`);
    if (!isRequest(before)) return;
    const question = questionName(before.id);
    const answer = answers.get(question);
    link(question, before.id, message.id as RpcId);
    if (answer === undefined) writer.openQuestions.set(question, before.id);
    // after the server is done with sending it
    else if (answer !== noAnswer) queueMicrotask(() => give(question, answer));
  }

  function link(question: string, clientId: RpcId, ownId: RpcId): void {
    ownIds.set(question, ownId);
    clientIds.set(ownId, clientId);
  }

  async function write(message: LooseMessage): Promise<void> {
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) {
      const requestId = clientIds.get(cancelled);
      return writer.write({ ...message, params: { ...message.params, requestId } });
    }
    if (!isRequest(message)) return writer.write(message);
    // the new server counts anew: its ids must differ from those of the first run
    askCount += 1;
    const id = formatQuestionId(writer.streamId, `rerun-${epoch}-${askCount}`);
    link(questionName(id), id, message.id);
    return writer.write({ ...message, id });
  }

  async function diverge(how: string): Promise<void> {
    onError(new SluiceError("internal", `resume: a request cannot be run again: ${how}`));
    await writer.fail("interrupted");
  }

  function give(question: string, answer: string): void {
    const id = ownIds.get(question);
    if (id === undefined) return;
    ownIds.delete(question);
    tell({ jsonrpc: "2.0", id, ...(JSON.parse(answer) as object) });
  }

  async function run(): Promise<void> {
    await server.connect(transport);
    tell({ jsonrpc: "2.0", id: openingId, method: "initialize", params: initialize });
    await opening;
    tell({ jsonrpc: "2.0", method: "notifications/initialized" });
    tell(call);
  }

  writer.onEnd(() => void server.close().catch(onError));
  run().catch(async (error: unknown) => {
    onError(error);
    await writer.fail("interrupted");
  });

  return {
    writer,
    sessionId,
    owner,
    requestId: call.id,
    async deliver(question, answer) {
      // the answer may come before the question is asked again
      answers.set(question, answer);
      if (writer.openQuestions.delete(question)) give(question, answer);
    },
  };
}

const openingId = "sluice-initialize";

/** Requests must ask the same. Of notifications the method is enough: progress may have times in it. */
function isSame(before: LooseMessage, now: LooseMessage): boolean {
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

function nameOf({ method }: LooseMessage): string {
  return JSON.stringify(method ?? "its answer");
}
