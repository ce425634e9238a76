import type {
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResponse,
} from "@modelcontextprotocol/client";
import { cancelledBy } from "@sluice/core";
import type { RevisionKind } from "@sluice/core/wire";
import type { OpenConnection } from "../upstream/server-link.ts";
import { LegacyState } from "./legacy-state.ts";
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
      if (this.#calls.take(message.id)) this.#parts.answerHost(message);
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

  async restore(connection: OpenConnection): Promise<void> {
    await this.#legacy?.replay(connection);
  }

  async call(method: string, params: Members, signal?: AbortSignal): Promise<Answer> {
    const { host, link, limits } = this.#parts;
    const request = { jsonrpc: "2.0" as const, id: host.newId(), method, params: { ...params } };
    const outgoing = this.#legacy ? request : withEnvelope(request, membersOf(this.#envelope));
    return answerOf(await link.exchange(outgoing, limits.askMs, signal));
  }
}
