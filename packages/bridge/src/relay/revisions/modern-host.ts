import type {
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResponse,
  RequestId,
} from "@modelcontextprotocol/client";
import { cancelledBy, FIRST_MODERN_VERSION, LISTEN_METHOD } from "@sluice/core/internal";
import type { ServerConnection } from "../../upstream/server-link.ts";
import { LegacyState } from "../same-revision.ts";
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
  isMembers,
} from "../../messages/messages.ts";
import { OpenCalls, type OpenCall } from "../open-calls.ts";
import type { Session, SessionParts } from "../session.ts";
import {
  capabilitiesIn,
  envelopeOf,
  LOG_LEVEL_KEY,
  VERSION_KEY,
  withoutEnvelope,
  SERVER_INFO_KEY,
} from "../../messages/envelope.ts";
import { canAsk, HeldCalls } from "./held-calls.ts";
import { Listeners } from "./listeners.ts";

/** Questions of a server, and what a client must have declared to be asked. */
const neededCapability: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** A host of 2026-07-28 in front of a server of 2025-11-25 or older. */
export class ModernHostSession implements Session {
  hostCapabilities: Members;
  readonly #parts: SessionParts;
  readonly #initialized: Members;
  readonly #legacy: LegacyState;
  readonly #calls: OpenCalls;
  readonly #held: HeldCalls;
  readonly #listeners: Listeners;
  readonly #waiting: WaitingQuestions;
  #level: unknown;

  /** `initialize`: what the server was sent; `initialized`: its result. */
  constructor(parts: SessionParts, initialize: JSONRPCRequest, initialized: Members) {
    this.#parts = parts;
    this.#initialized = initialized;
    this.hostCapabilities = capabilitiesIn(initialize);
    const { link, host, limits } = parts;
    this.#legacy = new LegacyState(() => host.newId(), limits.reconnectMs);
    this.#legacy.watch(initialize);
    this.#legacy.watch({ jsonrpc: "2.0", method: "notifications/initialized" });
    this.#calls = new OpenCalls(link, limits.maxOpenCalls, (response) => this.#answered(response));
    this.#held = new HeldCalls({
      askMs: limits.askMs,
      maxRounds: limits.maxRounds,
      toHost: parts.answerHost,
      toServer: (response) => void link.send(response).catch(() => {}),
      giveUp: (call) => void this.#cancelAtServer(call).catch(() => {}),
    });
    this.#waiting = new WaitingQuestions((question) =>
      this.#refuse(question, codes.internal, "The client called nothing that could ask it"),
    );
    this.#listeners = new Listeners({
      capabilities: membersOf(initialized["capabilities"]),
      toHost: (message) => ("method" in message ? host.send(message) : parts.answerHost(message)),
      subscribe: (uri, isWanted) => this.#subscribe(uri, isWanted),
    });
  }

  async fromHost(message: JSONRPCMessage): Promise<void> {
    if (isAnswer(message)) return;
    if (!isCall(message)) return this.#notice(message);
    const { id, method } = message;
    const envelope = envelopeOf(message);
    const fault = faultOfEnvelope(message, envelope);
    if (fault) return this.#parts.answerHost(fault);
    this.hostCapabilities = capabilitiesIn(message);
    if (method === "server/discover") {
      const answer = { result: discoverResult(this.#initialized) };
      return this.#parts.answerHost(answerTo(id, this.#modern(method, answer)));
    }
    if (method === LISTEN_METHOD) return this.#listeners.open(message);
    const resumed = this.#held.resume(message);
    // the call is still open at the server: its response goes to this repetition
    if (resumed) return "call" in resumed ? undefined : this.#parts.answerHost(resumed);
    await this.#setLevel(envelope?.[LOG_LEVEL_KEY]);
    const call = this.#calls.begin(message);
    if (!call) return;
    this.#calls.send(call, withoutEnvelope(message));
    if (canAsk(call)) for (const question of this.#waiting.take()) this.#held.ask(call, question);
  }

  /** Older servers log for a session, 2026-07-28 for a request: the newest level counts. */
  async #setLevel(level: unknown): Promise<void> {
    if (level === undefined || level === this.#level) return;
    if (!("logging" in membersOf(this.#initialized["capabilities"]))) return;
    this.#level = level;
    const params = { level };
    const { host, link, limits } = this.#parts;
    const request = {
      jsonrpc: "2.0" as const,
      id: host.newId(),
      method: "logging/setLevel",
      params,
    };
    this.#legacy.watch(request);
    await link.exchange(request, limits.reconnectMs).catch(() => {});
  }

  async #subscribe(uri: string, isWanted: boolean): Promise<void> {
    const { host, link, limits } = this.#parts;
    const method = isWanted ? "resources/subscribe" : "resources/unsubscribe";
    const request = { jsonrpc: "2.0" as const, id: host.newId(), method, params: { uri } };
    const response = await link.exchange(request, limits.reconnectMs);
    if ("error" in response) throw new Error(response.error.message);
    this.#legacy.watch(request);
  }

  async #notice(message: JSONRPCNotification): Promise<void> {
    const cancelled = cancelledBy(message);
    if (cancelled === undefined) return this.#parts.link.send(message);
    if (this.#listeners.close(cancelled)) return;
    const heldCall = this.#held.byHostId(cancelled);
    if (heldCall) this.#held.end(heldCall);
    const call = heldCall?.call ?? this.#calls.get(cancelled);
    if (call) await this.#cancelAtServer(call);
  }

  async #cancelAtServer(call: OpenCall): Promise<void> {
    this.#calls.take(call.serverId);
    const params = { requestId: call.serverId };
    await this.#parts.link.send({ jsonrpc: "2.0", method: "notifications/cancelled", params });
  }

  fromServer(message: JSONRPCMessage): void {
    if (isAnswer(message)) {
      const call = this.#calls.take(message.id);
      if (call) this.#answered({ ...message, id: call.request.id }, call);
    } else if (isCall(message)) void this.#askedByServer(message);
    else this.#noticeOfServer(message);
  }

  #noticeOfServer(notice: JSONRPCNotification): void {
    const withdrawn = cancelledBy(notice);
    if (withdrawn !== undefined) {
      this.#held.withdraw(withdrawn);
      this.#waiting.withdraw(withdrawn);
    } else if (notice.method === "notifications/progress") this.#progress(notice);
    // without a level in its requests, a host of 2026-07-28 gets no log
    else if (notice.method === "notifications/message" && this.#level === undefined) return;
    else if (!this.#listeners.take(notice)) this.#parts.host.send(notice);
  }

  /** Progress of a repeated call has the token of its newest repetition. */
  #progress(notice: JSONRPCNotification): void {
    const params = membersOf(notice.params);
    const call = this.#calls.newest(({ request }) => tokenOf(request) === params["progressToken"]);
    const heldCall = call && this.#held.get(call.serverId);
    if (!heldCall) return this.#parts.host.send(notice);
    const progressToken = heldCall.host && tokenOf(heldCall.host);
    if (progressToken === undefined) return;
    this.#parts.host.send({ ...notice, params: { ...params, progressToken } });
  }

  async #askedByServer(request: JSONRPCRequest): Promise<void> {
    const { link } = this.#parts;
    const answer =
      request.method === "ping" ? { result: {} } : await this.#parts.answerServer(request);
    if (answer) return link.send(answerTo(request.id, answer)).catch(() => {});
    const needed = neededCapability[request.method];
    const call = this.#calls.newest(canAsk);
    if (needed === undefined || !(needed in this.hostCapabilities))
      this.#refuse(request, codes.methodNotFound, "Method not found");
    else if (call) this.#held.ask(call, request);
    else this.#waiting.add(request);
  }

  #refuse({ id }: JSONRPCRequest, code: number, message: string): void {
    this.#parts.link.send(refusal(id, code, message)).catch(() => {});
  }

  /** Gives the host the response to a call, in its newest repetition. */
  #answered(response: JSONRPCResponse, call?: OpenCall): void {
    const { id } = response;
    if (id === undefined) return;
    const heldCall = this.#held.get(call?.serverId ?? id);
    const method = call?.request.method ?? "";
    const answer = this.#modern(method, answerOf(response));
    if (heldCall) this.#held.answer(heldCall, answer);
    else this.#parts.answerHost(answerTo(id, answer));
  }

  #modern(method: string, answer: Answer): Answer {
    return modernAnswer(method, answer, this.#initialized["serverInfo"]);
  }

  lost(reason: string): void {
    this.#calls.failAll(reason);
    this.#held.endAll();
    this.#waiting.clear();
  }

  restore(connection: ServerConnection): Promise<void> {
    return this.#legacy.replay(connection);
  }

  async call(method: string, params: Members, signal?: AbortSignal): Promise<Answer> {
    const { host, link, limits } = this.#parts;
    const request = { jsonrpc: "2.0" as const, id: host.newId(), method, params: { ...params } };
    return this.#modern(method, answerOf(await link.exchange(request, limits.askMs, signal)));
  }
}

function faultOfEnvelope(
  request: JSONRPCRequest,
  envelope: Members | undefined,
): JSONRPCResponse | undefined {
  if (!envelope) {
    const message = `Invalid params: _meta must carry ${VERSION_KEY} in this connection`;
    return refusal(request.id, codes.invalidParams, message);
  }
  const requested = envelope[VERSION_KEY];
  if (requested === FIRST_MODERN_VERSION) return undefined;
  const data = { supported: [FIRST_MODERN_VERSION], requested };
  return refusal(request.id, codes.unsupportedRevision, "Unsupported protocol version", data);
}

function tokenOf(request: JSONRPCRequest): unknown {
  return membersOf(membersOf(request.params)["_meta"])["progressToken"];
}

/** Servers wait a minute for a response, as the official SDKs do it. */
const waitMs = 60_000;
const maxWaiting = 64;

/** Questions of a server that came while no call was open which could carry them. */
class WaitingQuestions {
  readonly #refuse: (question: JSONRPCRequest) => void;
  readonly #waiting = new Map<JSONRPCRequest, NodeJS.Timeout>();

  /** `refuse` gets a question that waited too long. */
  constructor(refuse: (question: JSONRPCRequest) => void) {
    this.#refuse = refuse;
  }

  add(question: JSONRPCRequest): void {
    if (this.#waiting.size >= maxWaiting) return this.#refuse(question);
    const late = setTimeout(() => {
      this.#waiting.delete(question);
      this.#refuse(question);
    }, waitMs);
    late.unref();
    this.#waiting.set(question, late);
  }

  /** All that wait, oldest first; they wait no more. */
  take(): JSONRPCRequest[] {
    const questions = [...this.#waiting.keys()];
    this.clear();
    return questions;
  }

  /** The server takes a question back. */
  withdraw(id: RequestId): void {
    for (const [question, late] of this.#waiting) {
      if (question.id !== id) continue;
      clearTimeout(late);
      this.#waiting.delete(question);
    }
  }

  clear(): void {
    for (const late of this.#waiting.values()) clearTimeout(late);
    this.#waiting.clear();
  }
}

/** Methods whose results say how long they hold (SEP-2549). */
const cacheable: ReadonlySet<string> = new Set([
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/templates/list",
  "server/discover",
  "tools/list",
]);

/** The result of `server/discover` that says what a result of `initialize` says. */
function discoverResult(initialized: Members): Members {
  const { tasks: _tasks, ...capabilities } = membersOf(initialized["capabilities"]);
  const result: Record<string, unknown> = {
    supportedVersions: [FIRST_MODERN_VERSION],
    capabilities,
  };
  if (typeof initialized["instructions"] === "string")
    result["instructions"] = initialized["instructions"];
  return result;
}

/** A response of an older revision as 2026-07-28 has it. */
function modernAnswer(method: string, answer: Answer, serverInfo: unknown): Answer {
  if (answer.error) {
    // a resource that is not there has no code of its own any more
    return answer.error.code === -32_002 ? { error: { ...answer.error, code: -32_602 } } : answer;
  }
  const result: Record<string, unknown> = { resultType: "complete", ...answer.result };
  if (cacheable.has(method)) {
    result["ttlMs"] ??= 0;
    result["cacheScope"] ??= "private";
  }
  if (method === "tools/list" && Array.isArray(result["tools"]))
    result["tools"] = (result["tools"] as unknown[]).map(withoutExecution);
  if (isMembers(serverInfo))
    result["_meta"] = { [SERVER_INFO_KEY]: serverInfo, ...membersOf(result["_meta"]) };
  return { result };
}

/** 2026-07-28 has no tasks in its core. */
function withoutExecution(tool: unknown): unknown {
  if (!isMembers(tool) || !("execution" in tool)) return tool;
  const { execution: _dropped, ...rest } = tool;
  return rest;
}
