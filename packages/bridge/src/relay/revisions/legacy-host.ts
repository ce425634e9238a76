import type {
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResponse,
} from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { cancelledBy, partsOnce, sleep } from "@sluice/core/internal";
import {
  answerOf,
  answerTo,
  codes,
  isAnswer,
  isCall,
  membersOf,
  refusal,
  type Answer,
  type Members,
} from "../../messages/messages.ts";
import { OpenCalls, type OpenCall } from "../open-calls.ts";
import type { Session, SessionParts } from "../session.ts";
import {
  envelopeFrom,
  LOG_LEVEL_KEY,
  metaWithout,
  SUBSCRIPTION_KEY,
  withEnvelope,
} from "../../messages/envelope.ts";
import { isWrappedTool, legacyOutput, legacyResult } from "./legacy-results.ts";
import { ListenStream } from "./listen-stream.ts";
import { wordsOf } from "../../messages/error-words.ts";

/** Pause before a call is repeated that asked for nothing but to be repeated. */
const repeatPauseMs = 250;
/** Questions that one result may hold. */
const maxQuestions = 100;

/** A call of the host across its repetitions at the server. */
interface LegacyExchange {
  /** Newest repetition. */
  call: OpenCall;
  rounds: number;
}

/** A host of 2025-11-25 or older in front of a server of 2026-07-28. */
export class LegacyHostSession implements Session {
  readonly hostCapabilities: Members;
  readonly #parts: SessionParts;
  readonly #calls: OpenCalls;
  readonly #listen: ListenStream;
  readonly #exchanges = new Map<unknown, LegacyExchange>();
  readonly #wrappedTools = new Set<string>();
  #envelope: Members;

  /** `discovered`: the server's result of `server/discover`. */
  constructor(parts: SessionParts, initialize: JSONRPCRequest, discovered: Members) {
    this.#parts = parts;
    this.hostCapabilities = membersOf(membersOf(initialize.params)["capabilities"]);
    this.#envelope = envelopeFrom(initialize);
    this.#calls = new OpenCalls(parts.link, parts.limits.maxOpenCalls, (response) =>
      this.#answer(response),
    );
    const capabilities = membersOf(discovered["capabilities"]);
    this.#listen = new ListenStream(parts.link, parts.host, capabilities, () => this.#envelope);
  }

  async fromHost(message: JSONRPCMessage): Promise<void> {
    if (isAnswer(message)) return;
    if (!isCall(message)) return this.#notice(message);
    const answered = await this.#answerHere(message);
    if (answered) return this.#parts.answerHost(answerTo(message.id, answered));
    const call = this.#calls.begin(message);
    if (!call) return;
    this.#exchanges.set(message.id, { call, rounds: 0 });
    this.#calls.send(call, withEnvelope(message, this.#envelope));
  }

  /** Methods that 2026-07-28 does not have. */
  async #answerHere(request: JSONRPCRequest): Promise<Answer | undefined> {
    const { level, uri } = membersOf(request.params);
    if (request.method === "ping") return { result: {} };
    if (request.method === "logging/setLevel") {
      this.#envelope = { ...this.#envelope, [LOG_LEVEL_KEY]: level };
      return { result: {} };
    }
    if (typeof uri !== "string") return undefined;
    try {
      if (request.method === "resources/subscribe") await this.#listen.subscribe(uri);
      else if (request.method === "resources/unsubscribe") await this.#listen.unsubscribe(uri);
      else return undefined;
    } catch (error) {
      return { error: { code: codes.methodNotFound, message: (error as Error).message } };
    }
    return { result: {} };
  }

  async #notice(message: JSONRPCNotification): Promise<void> {
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) return this.#cancel(cancelled);
    if (message.method === "notifications/initialized") this.#listen.start();
    // those three belong to the handshake and to requests that 2026-07-28 does not have
    else if (message.method !== "notifications/roots/list_changed")
      await this.#parts.link.send(message);
  }

  async #cancel(hostId: unknown): Promise<void> {
    const exchange = this.#exchanges.get(hostId);
    if (!exchange) return;
    this.#exchanges.delete(hostId);
    const { serverId } = exchange.call;
    this.#calls.cancel(serverId);
    exchange.call.abort.abort(new Error("the host cancelled it"));
    if (this.#parts.link.hasRequestStreams) return;
    await this.#parts.link.send({
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: serverId },
    });
  }

  fromServer(message: JSONRPCMessage): void {
    if (isAnswer(message)) this.#answered(message);
    else if (isCall(message)) {
      // 2026-07-28 has no requests of the server
      const error = { code: codes.methodNotFound, message: "Method not found" };
      this.#parts.link.send(answerTo(message.id, { error })).catch(() => {});
    } else if (!this.#listen.take(message)) this.#parts.host.send(withoutSubscription(message));
  }

  #answered(response: JSONRPCResponse): void {
    const call = this.#calls.take(response.id);
    if (!call) return;
    const { id } = call.request;
    const isQuestion = "result" in response && response.result["resultType"] === "input_required";
    if (!isQuestion) return this.#answer({ ...response, id });
    const exchange = this.#exchanges.get(id);
    if (!exchange) return;
    this.#repeat(exchange, response.result).catch((error: unknown) => {
      if (this.#exchanges.get(id) !== exchange) return;
      const reason = wordsOf(error);
      this.#answer(refusal(id, codes.internal, `The server asked for more: ${reason}`));
    });
  }

  /** Asks the host what the server asks for, and calls the server again with the responses. */
  async #repeat(exchange: LegacyExchange, result: Members): Promise<void> {
    const { request, abort } = exchange.call;
    if (++exchange.rounds > this.#parts.limits.maxRounds)
      throw new SluiceError("protocol", `it asked ${exchange.rounds} times`);
    const questions = Object.entries(membersOf(result["inputRequests"]));
    if (questions.length > maxQuestions)
      throw new SluiceError("protocol", `it asked ${questions.length} questions at once`);
    const responses = questions.map(async ([key, question]) => [
      key,
      await this.#ask(membersOf(question), abort.signal),
    ]);
    const inputResponses = Object.fromEntries(await Promise.all(responses)) as Members;
    if (questions.length === 0) await sleep(repeatPauseMs, abort.signal);
    abort.signal.throwIfAborted();

    const params: Record<string, unknown> = { ...membersOf(request.params) };
    if (questions.length > 0) params["inputResponses"] = inputResponses;
    if (result["requestState"] !== undefined) params["requestState"] = result["requestState"];
    const id = this.#parts.host.newId();
    const call = this.#calls.begin(request, id);
    if (!call) return;
    exchange.call = call;
    this.#calls.send(call, withEnvelope({ ...request, id, params }, this.#envelope));
  }

  async #ask(question: Members, signal: AbortSignal): Promise<Members> {
    const { method, params } = question;
    if (typeof method !== "string")
      throw new SluiceError("protocol", "a question without a method");
    const request = { jsonrpc: "2.0" as const, id: this.#parts.host.newId(), method };
    const outgoing = params === undefined ? request : { ...request, params: membersOf(params) };
    const answer =
      (await this.#parts.answerServer(outgoing)) ??
      (await this.#parts.host.ask(method, params === undefined ? undefined : membersOf(params), {
        timeoutMs: this.#parts.limits.askMs,
        signal,
      }));
    if (answer.error)
      throw new SluiceError("unsupported", partsOnce(`${method}: ${answer.error.message}`));
    return answer.result;
  }

  /** Gives the host a response of the server, in the host's revision. */
  #answer(response: JSONRPCResponse): void {
    const exchange = this.#exchanges.get(response.id);
    this.#exchanges.delete(response.id);
    if (!("result" in response) || !exchange) return this.#parts.answerHost(response);
    const { method, params } = exchange.call.request;
    let result = legacyResult(method, response.result);
    if (method === "tools/list") this.#learnTools(response.result["tools"]);
    if (method === "tools/call")
      result = legacyOutput(result, this.#wrappedTools.has(String(membersOf(params)["name"])));
    this.#parts.answerHost({ ...response, result });
  }

  #learnTools(tools: unknown): void {
    for (const tool of Array.isArray(tools) ? (tools as unknown[]) : [])
      if (isWrappedTool(tool) && this.#wrappedTools.size < 10_000)
        this.#wrappedTools.add(String(membersOf(tool)["name"]));
  }

  lost(reason: string): void {
    this.#calls.failAll(reason);
  }

  async restore(): Promise<void> {
    // each request says all that the server must know
  }

  async call(method: string, params: Members, signal?: AbortSignal): Promise<Answer> {
    const { host, link, limits } = this.#parts;
    const request = { jsonrpc: "2.0" as const, id: host.newId(), method, params: { ...params } };
    const outgoing = withEnvelope(request, this.#envelope);
    const answer = answerOf(await link.exchange(outgoing, limits.askMs, signal));
    return answer.error ? answer : { result: legacyResult(method, answer.result) };
  }
}

function withoutSubscription(notice: JSONRPCNotification): JSONRPCNotification {
  const params = membersOf(notice.params);
  if (membersOf(params["_meta"])[SUBSCRIPTION_KEY] === undefined) return notice;
  const { _meta, ...rest } = params;
  const meta = metaWithout(_meta, SUBSCRIPTION_KEY);
  return { ...notice, params: meta ? { ...rest, _meta: meta } : rest };
}
