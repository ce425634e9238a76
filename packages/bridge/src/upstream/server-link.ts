import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import {
  SdkErrorCode,
  SdkHttpError,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type JSONRPCResponse,
  type Transport,
} from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { isInTime, sleep } from "@sluice/core/internal";
import type { BridgeLimits } from "../messages/limits.ts";
import { isAnswer, isCall } from "../messages/messages.ts";
import { RepeatableCalls } from "../messages/repeatable-calls.ts";
import { Exchanges, type MessageOptions } from "./exchanges.ts";
import { SendError, sendFaultOf, type SendFault } from "./send-fault.ts";
import type { Flow, ServerTransport, Upstream } from "./upstream.ts";
import { wordsOf } from "../messages/error-words.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

interface LinkEvents {
  /** A message of the server that answers no exchange of the link itself. */
  readonly onmessage: (message: JSONRPCMessage) => void;
  /** The connection is gone: nothing that was sent on it is answered any more. */
  readonly onlost: (reason: string) => void;
  /** Brings a new connection to the state of the old one, before anything else is sent on it. */
  readonly restore: (connection: ServerConnection) => Promise<void>;
  /** The server could not be reached again. */
  readonly onfailed: (error: Error) => void;
  /** A line for people. */
  readonly note: (line: string) => void;
}

/** A connection while it is being restored. */
export interface ServerConnection {
  send(message: JSONRPCMessage): Promise<void>;
  exchange(request: JSONRPCRequest, timeoutMs: number): Promise<JSONRPCResponse>;
}

const firstPauseMs = 250;
const longestPauseMs = 5_000;
/** After as many, a refusal is taken for one of the message. */
const maxLostSessions = 2;
/** A process that ends more often than this within a minute is not started again. */
const maxStartsPerMinute = 6;

/** The server's end: one connection after the other, opened again when it was lost. */
export class ServerLink {
  readonly #upstream: Upstream;
  readonly #flow: Flow;
  readonly #limits: BridgeLimits;
  readonly #events: LinkEvents;
  readonly #exchanges = new Exchanges();
  /** Calls of this server that may arrive twice. */
  readonly repeatable: RepeatableCalls = new RepeatableCalls();
  readonly #end = new AbortController();
  #transport: Transport | undefined;
  #opening: Promise<Transport> | undefined;
  #checking: Promise<JSONRPCResponse> | undefined;
  #starts: number[] = [];
  #wasOpen = false;
  #isAway = false;
  #hasSpoken = false;
  #lastNote: string | undefined;

  constructor(upstream: Upstream, flow: Flow, limits: BridgeLimits, events: LinkEvents) {
    // every call of the bridge listens
    setMaxListeners(0, this.#end.signal);
    this.#upstream = upstream;
    this.#flow = flow;
    this.#limits = limits;
    this.#events = events;
  }

  /** True when each request has a stream of its own, which cancels it when it is closed. */
  get hasRequestStreams(): boolean {
    return this.#upstream.kind === "http";
  }

  /** Aborts when the bridge ends. */
  get ended(): AbortSignal {
    return this.#end.signal;
  }

  /** What messages call the server. */
  get name(): string {
    return this.#upstream.name;
  }

  /**
   * Sends a message. While the server is away, it tries again for as long as the limits say, unless that could do a call
   * twice. Throws {@link SendError}, or the reason of an abort.
   */
  async send(message: JSONRPCMessage, { signal, onEnd }: MessageOptions = {}): Promise<void> {
    const deadline = Date.now() + this.#limits.reconnectMs;
    let lostSessions = 0;
    for (let attempt = 0; ; attempt++) {
      signal?.throwIfAborted();
      const transport = this.#transport ?? (await this.#open());
      try {
        await transport.send(message, { requestSignal: signal, onRequestStreamEnd: onEnd });
        this.#reached();
        return;
      } catch (error) {
        signal?.throwIfAborted();
        this.#end.signal.throwIfAborted();
        // what loses one session after the other is about the message
        const inSession = transport.sessionId !== undefined && lostSessions < maxLostSessions;
        const fault = sendFaultOf(error, inSession);
        const isLeft = this.#transport !== transport;
        if (!this.#mayRepeat(message, fault, isLeft) || Date.now() > deadline || attempt > 1_000)
          throw new SendError(fault);
        if (fault.kind === "session-gone") {
          lostSessions++;
          await this.#leave(message, transport, fault.reason);
        } else {
          this.#away(wordsOf(new SendError(fault)));
          await sleep(pauseMs(attempt), signal ?? this.#end.signal);
        }
      }
    }
  }

  /** Sends a request and resolves with the response to it. */
  async exchange(
    request: JSONRPCRequest,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<JSONRPCResponse> {
    return this.#exchange(request, timeoutMs, signal, (options) => this.send(request, options));
  }

  #exchange(
    request: JSONRPCRequest,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    send: (options: MessageOptions) => Promise<void>,
  ): Promise<JSONRPCResponse> {
    const expired = (): SluiceError =>
      new SluiceError("timeout", `bridge: ${this.name} did not answer ${request.method} in time`);
    const deadline = { timeoutMs, expired, signal: this.#end.signal };
    return this.#exchanges.run(request, deadline, signal, send);
  }

  /** The first connection, or the next one after a loss; one attempt serves all that wait. */
  #open(): Promise<Transport> {
    this.#opening ??= this.#openWithin(this.#limits.reconnectMs).finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #openWithin(reconnectMs: number): Promise<Transport> {
    const deadline = Date.now() + reconnectMs;
    for (let attempt = 0; ; attempt++) {
      this.#end.signal.throwIfAborted();
      try {
        return await this.#openOnce();
      } catch (error) {
        this.#end.signal.throwIfAborted();
        const isFinal = SluiceError.is(error) && !error.retryable;
        if (isFinal || !this.#wasOpen || Date.now() > deadline) throw error;
        this.#away(wordsOf(error));
        await sleep(pauseMs(attempt), this.#end.signal);
      }
    }
  }

  async #openOnce(): Promise<Transport> {
    this.#checkStarts();
    const transport: ServerTransport = await this.#upstream.open(this.#flow);
    transport.onmessage = (message) => this.#receive(transport, message);
    transport.onerror = (error) => this.#fault(transport, error);
    await transport.start();
    const isFirst = !this.#wasOpen;
    this.#wasOpen = true;
    let isOpen = true;
    transport.onclose = () => {
      isOpen = false;
      const reason = this.#endReasonOf(transport);
      if (this.#transport === transport) this.#lose(transport, reason);
      this.#exchanges.failAll(reason);
    };
    if (!isFirst) {
      try {
        await this.#events.restore(this.#connectionOf(transport));
      } catch (error) {
        await transport.close();
        // the messages that wait for it are not sent
        throw SluiceError.is(error)
          ? error
          : new SendError({ kind: "unreached", reason: wordsOf(error) });
      }
    }
    if (!isOpen) throw new SluiceError("unavailable", `bridge: ${this.name} exited at once`);
    if (this.#end.signal.aborted) await transport.close();
    this.#end.signal.throwIfAborted();
    this.#transport = transport;
    if (!isFirst) this.#reached();
    return transport;
  }

  #connectionOf(transport: Transport): ServerConnection {
    return {
      send: async (message) => {
        await transport.send(message).catch((error: unknown) => {
          const fault = sendFaultOf(error, false);
          // servers refuse notifications that they have no use for
          if (fault.kind !== "refused" && fault.kind !== "answered") throw faultFor(error, fault);
        });
      },
      exchange: (request, timeoutMs) =>
        this.#exchange(request, timeoutMs, undefined, async ({ signal, onEnd }) => {
          const sending = transport.send(request, {
            requestSignal: signal,
            onRequestStreamEnd: onEnd,
          });
          await sending.catch((error: unknown) => {
            throw faultFor(error, sendFaultOf(error, false));
          });
        }),
    };
  }

  #checkStarts(): void {
    if (this.#upstream.kind !== "process") return;
    const now = Date.now();
    this.#starts = this.#starts.filter((start) => now - start < 60_000);
    if (this.#starts.length >= maxStartsPerMinute)
      throw new SluiceError("internal", `bridge: ${this.name} keeps exiting: see its output`);
    this.#starts.push(now);
  }

  #receive(transport: Transport, message: JSONRPCMessage): void {
    if (this.#end.signal.aborted) return;
    this.#hasSpoken = true;
    this.#upstream.learn?.(message);
    this.repeatable.learn(message);
    if (!isAnswer(message) || !this.#exchanges.take(message)) {
      this.#events.onmessage(message);
      return;
    }
    // the result of `initialize`: over HTTP each request then names the revision
    const version = "result" in message ? message.result["protocolVersion"] : undefined;
    if (typeof version === "string") transport.setProtocolVersion?.(version);
  }

  #fault(transport: Transport, error: Error): void {
    if (this.#end.signal.aborted) return;
    // a stream of the session that the server had opened before: only a POST tells whether the session is over
    if (this.#transport === transport && transport.sessionId !== undefined && isStreamGone(error))
      this.#checkSession().catch((fault: unknown) => {
        this.#events.note(`${this.name} could not be reached again: ${wordsOf(fault)}`);
      });
    else if (SluiceError.is(error)) this.#events.note(wordsOf(error));
  }

  /** Asks for a sign of life, which begins the session anew where it is over. */
  async #checkSession(): Promise<void> {
    const request = { jsonrpc: "2.0" as const, id: randomUUID(), method: "ping" };
    this.#checking ??= this.exchange(request, this.#limits.reconnectMs).finally(() => {
      this.#checking = undefined;
    });
    await this.#checking;
  }

  /** Gives up a connection whose session the server does not know: the next message opens another one. */
  async #leave(message: JSONRPCMessage, transport: Transport, reason: string): Promise<void> {
    // servers refuse notifications that they have no use for, also with 404
    if (!isCall(message)) return this.#checkSession();
    if (this.#transport !== transport) return;
    this.#transport = undefined;
    transport.onclose = () => {};
    this.#events.onlost(reason);
    this.#away(reason);
    await transport.close();
  }

  #lose(transport: Transport, reason: string): void {
    this.#transport = undefined;
    transport.onmessage = () => {};
    this.#exchanges.failAll(reason);
    if (this.#end.signal.aborted) return;
    this.#events.onlost(reason);
    // the next message starts it again
    if (this.#isMute) return this.#noteOnce(`${this.name}: ${reason}`);
    this.#away(reason);
    this.#open().catch((error: unknown) => {
      if (!this.#end.signal.aborted) this.#events.onfailed(error as Error);
    });
  }

  /** True where another try does no harm, and may have another outcome. `isLeft`: the connection was given up. */
  #mayRepeat(message: JSONRPCMessage, fault: SendFault, isLeft: boolean): boolean {
    if (fault.kind === "lost")
      return (fault.isAway === true || isLeft) && this.repeatable.mayArriveTwice(message);
    return (fault.kind === "unreached" && !this.#isMute) || fault.kind === "session-gone";
  }

  /** A program that ended, and has sent no message yet: it will not do better by itself. */
  get #isMute(): boolean {
    return this.#upstream.kind === "process" && this.#wasOpen && !this.#hasSpoken;
  }

  #endReasonOf({ endReason = "the server has ended" }: ServerTransport): string {
    return this.#isMute ? `${endReason} before its first message; see its output` : endReason;
  }

  #noteOnce(line: string): void {
    if (line === this.#lastNote) return;
    this.#lastNote = line;
    this.#events.note(line);
  }

  #away(reason: string): void {
    if (this.#isAway) return;
    this.#isAway = true;
    const seconds = Math.round(this.#limits.reconnectMs / 1_000);
    this.#events.note(`${this.name} is unreachable (${reason}): retrying for ${seconds} s`);
  }

  #reached(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    this.#events.note(`${this.name} is back`);
  }

  /** Ends the connection, and with it a child process. */
  async close(): Promise<void> {
    this.#end.abort(new SluiceError("interrupted", "bridge: it has ended"));
    this.#exchanges.failAll("the bridge ends");
    const transport = this.#transport;
    this.#transport = undefined;
    await endSession(transport);
    await transport?.close();
    await this.#opening?.catch(() => {});
  }
}

/** Tells the server that the session is over: it may free what it holds. A server need not answer. */
async function endSession(transport: Transport | undefined): Promise<void> {
  const terminable = transport as { terminateSession?: () => Promise<void> } | undefined;
  if (transport?.sessionId === undefined || !terminable?.terminateSession) return;
  await isInTime(terminable.terminateSession(), 1_000);
}

/** Statuses with which servers refuse the stream of a session that they do not know. */
const goneStatuses: ReadonlySet<unknown> = new Set([400, 404]);

function isStreamGone(error: Error): boolean {
  return (
    SdkHttpError.isInstance(error) &&
    error.code === SdkErrorCode.ClientHttpFailedToOpenStream &&
    goneStatuses.has(error.data.status)
  );
}

/** An error of ours as it is; of any other, what it says of the message, without the server's words. */
function faultFor(error: unknown, fault: SendFault): Error {
  return SluiceError.is(error) ? error : new SendError(fault);
}

function pauseMs(attempt: number): number {
  return Math.min(firstPauseMs * 2 ** attempt, longestPauseMs);
}
