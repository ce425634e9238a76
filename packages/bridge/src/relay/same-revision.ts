import type {
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResponse,
} from "@modelcontextprotocol/client";
import { cancelledBy, type RevisionKind } from "@sluice/core/internal";
import type { ServerConnection } from "../upstream/server-link.ts";
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
} from "../messages/messages.ts";
import { OpenCalls } from "./open-calls.ts";
import { capabilitiesIn, envelopeOf, withEnvelope } from "../messages/envelope.ts";
import type { Session, SessionParts } from "./session.ts";

/** Passes messages as they are: host and server speak the same revision. */
export class SameRevisionSession implements Session {
  readonly #parts: SessionParts;
  readonly #calls: OpenCalls;
  readonly #legacy: LegacyState | undefined;
  /** Newest envelope of the host, for the bridge's own calls (2026-07-28). */
  #envelope: Members = {};
  hostCapabilities: Members = {};

  constructor(parts: SessionParts, kind: RevisionKind) {
    this.#parts = parts;
    const { link, host, limits } = parts;
    this.#calls = new OpenCalls(link, limits.maxOpenCalls, parts.answerHost);
    if (kind === "legacy") this.#legacy = new LegacyState(() => host.newId(), limits.reconnectMs);
  }

  async fromHost(message: JSONRPCMessage): Promise<void> {
    this.#legacy?.watch(message);
    if (isAnswer(message)) return this.#answerOfHost(message);
    if (!isCall(message)) return this.#notice(message);
    this.#learn(message);
    const call = this.#calls.begin(message);
    if (call) this.#calls.send(call, message);
  }

  /** Takes the host's first message for known, which was sent before there was a session. */
  begin(message: JSONRPCRequest): void {
    this.#legacy?.watch(message);
    this.#learn(message);
  }

  #learn(request: JSONRPCRequest): void {
    const envelope = envelopeOf(request);
    if (envelope) this.#envelope = envelope;
    if (envelope || request.method === "initialize")
      this.hostCapabilities = capabilitiesIn(request);
  }

  async #notice(message: JSONRPCNotification): Promise<void> {
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined && !this.#legacy && this.#parts.link.hasRequestStreams) {
      // 2026-07-28 over HTTP: to close the stream is to cancel
      this.#calls.cancel(cancelled);
      return;
    }
    await this.#parts.link.send(message);
    if (cancelled !== undefined) this.#calls.take(cancelled);
  }

  async #answerOfHost(message: JSONRPCResponse): Promise<void> {
    const response = this.#parts.host.serverResponse(message);
    if (response) await this.#parts.link.send(response);
  }

  fromServer(message: JSONRPCMessage): void {
    if (isAnswer(message)) {
      // what was cancelled, or was never asked for, is dropped
      const call = this.#calls.take(message.id);
      if (call) this.#parts.answerHost({ ...message, id: call.request.id });
    } else if (isCall(message)) void this.#askedByServer(message);
    else {
      const withdrawn = cancelledBy(message);
      if (withdrawn !== undefined) this.#parts.host.endServerRequest(withdrawn);
      this.#parts.host.send(message);
    }
  }

  async #askedByServer(request: JSONRPCRequest): Promise<void> {
    const { host, link } = this.#parts;
    const answer = await this.#parts.answerServer(request);
    if (answer) await link.send(answerTo(request.id, answer)).catch(() => {});
    else if (!host.sendServerRequest(request)) {
      const words = "The client has too many questions to answer";
      await link.send(refusal(request.id, codes.internal, words)).catch(() => {});
    }
  }

  lost(reason: string): void {
    // over HTTP without a session nothing is lost with a connection
    this.#calls.failAll(reason);
    this.#parts.host.cancelServerRequests(reason);
  }

  async restore(connection: ServerConnection): Promise<void> {
    await this.#legacy?.replay(connection);
  }

  async call(method: string, params: Members, signal?: AbortSignal): Promise<Answer> {
    const { host, link, limits } = this.#parts;
    const request = { jsonrpc: "2.0" as const, id: host.newId(), method, params: { ...params } };
    const outgoing = this.#legacy ? request : withEnvelope(request, membersOf(this.#envelope));
    return answerOf(await link.exchange(outgoing, limits.askMs, signal));
  }
}

/** Subscriptions that are made again; more than these are forgotten with their session. */
const maxSubscriptions = 1_000;

/** What a server of 2025-11-25 or older knows of its client, to be said again on a new connection. */
export class LegacyState {
  readonly #newId: () => string;
  readonly #timeoutMs: number;
  readonly #uris = new Set<string>();
  #initialize: JSONRPCRequest | undefined;
  #isInitialized = false;
  #level: unknown;

  /** `timeoutMs`: the longest wait for each response. */
  constructor(newId: () => string, timeoutMs: number) {
    this.#newId = newId;
    this.#timeoutMs = timeoutMs;
  }

  /** Sees what goes to the server. */
  watch(message: JSONRPCMessage): void {
    if (!("method" in message)) return;
    const params = membersOf(message.params);
    if (message.method === "initialize" && isCall(message)) this.#initialize = message;
    if (message.method === "notifications/initialized") this.#isInitialized = true;
    if (message.method === "logging/setLevel") this.#level = params["level"];
    const { uri } = params;
    if (typeof uri !== "string") return;
    if (message.method === "resources/unsubscribe") this.#uris.delete(uri);
    if (message.method === "resources/subscribe" && this.#uris.size < maxSubscriptions)
      this.#uris.add(uri);
  }

  /** Says all of it again. Throws when the server does not take the first message of it. */
  async replay(connection: ServerConnection): Promise<void> {
    if (!this.#initialize || !this.#isInitialized) return;
    const response = await this.#ask(connection, "initialize", this.#initialize.params);
    if ("error" in response)
      throw new Error(`it refused to start again: ${response.error.message}`);
    await connection.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    if (this.#level !== undefined)
      await this.#ask(connection, "logging/setLevel", { level: this.#level });
    for (const uri of this.#uris) await this.#ask(connection, "resources/subscribe", { uri });
  }

  #ask(
    connection: ServerConnection,
    method: string,
    params: JSONRPCRequest["params"],
  ): ReturnType<ServerConnection["exchange"]> {
    const request = { jsonrpc: "2.0" as const, id: this.#newId(), method };
    return connection.exchange(params ? { ...request, params } : request, this.#timeoutMs);
  }
}
