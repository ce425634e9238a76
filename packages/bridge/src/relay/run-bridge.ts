import type {
  JSONRPCMessage,
  JSONRPCRequest,
  JSONRPCResponse,
  Transport,
} from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import {
  cancelledBy,
  defer,
  isInTime,
  keyOf,
  onAbort,
  type RevisionKind,
} from "@sluice/core/internal";
import { SendError } from "../upstream/send-fault.ts";
import { ServerLink } from "../upstream/server-link.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { BridgeCalls, RelayHooks } from "../messages/hooks.ts";
import { HostLink } from "./host-link.ts";
import { defaultLimits, type BridgeLimits } from "../messages/limits.ts";
import { answerTo, codes, isCall, isNotice, refusal, type Answer } from "../messages/messages.ts";
import { hostRevision, negotiate } from "./revisions/negotiate.ts";
import type { Session, SessionParts } from "./session.ts";
import { wordsOf } from "../messages/error-words.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** Options of {@link runBridge}. */
export interface BridgeOptions {
  /** The host's end, not started: such as `createStdioHost()`. */
  readonly host: Transport;
  /** The server behind: `createHttpUpstream()` or `createProcessUpstream()`. */
  readonly upstream: Upstream;
  /** Sees the messages. Default: they pass as they are. */
  readonly hooks?: RelayHooks | undefined;
  /** Ends the bridge. */
  readonly signal?: AbortSignal | undefined;
  /** Receives log lines, such as "server unreachable". Default: they are dropped. */
  readonly onNote?: ((line: string) => void) | undefined;
  /** Bounds and deadlines. Default: those of {@link BridgeLimits}. */
  readonly limits?: Partial<BridgeLimits> | undefined;
}

/** Messages of the host that may wait while the server is found out about. */
const maxQueued = 1_000;
/** How long a message without a response holds back the next one. */
const orderMs = 5_000;

/**
 * Passes messages between a host and a server until the host ends or `signal` aborts, then ends the server's
 * connection or process. Rejects when the server cannot be reached at all, or not any more.
 */
export async function runBridge(options: BridgeOptions): Promise<void> {
  const relay = new BridgeRelay(options);
  await relay.run();
}

class BridgeRelay {
  readonly #options: BridgeOptions;
  readonly #hooks: RelayHooks;
  readonly #host: HostLink;
  readonly #link: ServerLink;
  readonly #parts: SessionParts;
  readonly #ended = defer<void>();
  readonly #queue: JSONRPCMessage[] = [];
  /** Requests of the host that are not answered yet, nor cancelled. */
  readonly #asked = new Map<string, AskedRequest>();
  #isPumping = false;
  #session: Session | undefined;
  #kind: RevisionKind | undefined;

  constructor(options: BridgeOptions) {
    this.#options = options;
    this.#hooks = options.hooks ?? {};
    const limits = { ...defaultLimits, ...options.limits };
    this.#host = new HostLink(options.host);
    this.#link = new ServerLink(options.upstream, this.#host, limits, {
      onmessage: (message) => this.#fromServer(message),
      onlost: (reason) => this.#session?.lost(reason),
      restore: async (connection) => this.#session?.restore(connection),
      onfailed: (error) => this.#ended.reject(error),
      note: (line) => this.#note(line),
    });
    this.#parts = {
      host: this.#host,
      link: this.#link,
      limits,
      answerHost: (response) => void this.#answerHost(response),
      answerServer: async (request) => this.#hooks.serverRequest?.(request),
    };
  }

  async run(): Promise<void> {
    const { host, signal } = this.#options;
    this.#hooks.start?.(this.#calls());
    host.onmessage = (message) => this.#fromHost(message);
    host.onclose = () => this.#ended.resolve();
    host.onerror = (error) => this.#note(wordsOf(error));
    const removeListener = onAbort(signal, (reason) => this.#ended.reject(reason));
    try {
      if (!signal?.aborted) await host.start();
      await this.#ended.promise;
    } finally {
      removeListener();
      for (const { abort } of this.#asked.values()) abort.abort(new Error("the bridge ends"));
      await this.#link.close();
      await host.close();
    }
  }

  #note(line: string): void {
    this.#options.onNote?.(line);
  }

  #fromHost(message: JSONRPCMessage): void {
    if (this.#host.takeAnswer(message)) return;
    // it may wait long in the queue
    this.#cancel(message);
    if (this.#queue.length >= maxQueued) {
      if (isCall(message))
        this.#host.send(refusal(message.id, codes.noConnection, "Too many messages wait."));
      return;
    }
    this.#queue.push(message);
    if (!this.#isPumping) void this.#pump();
  }

  /** Ends what a message of the host cancels, as far as it has begun. */
  #cancel(message: JSONRPCMessage): void {
    const cancelled = cancelledBy(message);
    if (cancelled === undefined) return;
    this.#asked.get(keyOf(cancelled))?.abort.abort(new Error("the host cancelled it"));
    this.#asked.delete(keyOf(cancelled));
  }

  /** Messages of the host, one after the other: what has no response is sent before the next one. */
  async #pump(): Promise<void> {
    this.#isPumping = true;
    for (let message = this.#queue.shift(); message; message = this.#queue.shift()) {
      const passed = this.#pass(message).catch((error: unknown) => this.#undelivered(error));
      await (this.#session ? isInTime(passed, orderMs) : passed);
    }
    this.#isPumping = false;
  }

  async #pass(message: JSONRPCMessage): Promise<void> {
    if (!isCall(message)) {
      // its request may have waited in front of it
      this.#cancel(message);
      // before its first request a host has nothing to say
      await this.#session?.fromHost(message);
      return;
    }
    const hostRequest = { request: message, abort: new AbortController() };
    this.#asked.set(keyOf(message.id), hostRequest);
    if (!this.#session && !(await this.#begin(hostRequest))) return;
    if (hostRequest.abort.signal.aborted) return;
    if (!this.#hooks.request) await this.#session?.fromHost(message);
    else void this.#decide(hostRequest).catch((error: unknown) => this.#undelivered(error));
  }

  /** Finds out what the server speaks. False when that has answered the request. */
  async #begin(asked: AskedRequest): Promise<boolean> {
    const { request } = asked;
    this.#kind = hostRevision(request);
    try {
      const { session, answer } = await negotiate(this.#parts, request);
      // a server that refuses may be asked again, by a better request
      if (!answer?.error) this.#session = session;
      if (answer) await this.#answerHost(answerTo(request.id, answer));
      return !answer;
    } catch (error) {
      const message = `The bridge cannot reach ${this.#link.name}: ${wordsOf(error)}`;
      this.#note(message);
      this.#answerOnce(
        asked,
        refusal(request.id, codes.noConnection, message, { retryable: true }),
      );
      return false;
    }
  }

  async #decide(asked: AskedRequest): Promise<void> {
    const { request, abort } = asked;
    try {
      const decision = await this.#hooks.request?.(request, abort.signal);
      if (abort.signal.aborted) return;
      if (decision && "answer" in decision)
        this.#answerOnce(asked, answerTo(request.id, decision.answer));
      else await this.#session?.fromHost(decision ?? request);
    } catch (error) {
      this.#answerOnce(asked, refusal(request.id, codes.internal, wordsOf(error)));
    }
  }

  /** The server's response. Without a request of the host that waits for it, it is dropped. */
  async #answerHost(response: JSONRPCResponse): Promise<void> {
    const hostRequest = this.#asked.get(keyOf(response.id));
    if (!hostRequest) return;
    if (!this.#hooks.answer) return this.#answerOnce(hostRequest, response);
    try {
      this.#answerOnce(hostRequest, await this.#hooks.answer(hostRequest.request, response));
    } catch (error) {
      this.#answerOnce(
        hostRequest,
        refusal(hostRequest.request.id, codes.internal, wordsOf(error)),
      );
    }
  }

  /** Answers a request that is neither answered nor cancelled. */
  #answerOnce(asked: AskedRequest, response: JSONRPCResponse): void {
    const key = keyOf(asked.request.id);
    if (this.#asked.get(key) !== asked) return;
    this.#asked.delete(key);
    this.#host.send(response);
  }

  #fromServer(message: JSONRPCMessage): void {
    // an id of ours in a request would let a server answer in the host's name
    if (this.#host.isOwn(message)) return;
    if (this.#session) this.#session.fromServer(message);
    else if (isNotice(message)) this.#host.send(message);
    else if (isCall(message)) {
      const answer: Answer =
        message.method === "ping"
          ? { result: {} }
          : { error: { code: codes.internal, message: "The client is not ready" } };
      this.#link.send(answerTo(message.id, answer)).catch(() => {});
    }
  }

  #undelivered(error: unknown): void {
    if (error instanceof SendError && error.fault.kind === "answered") return;
    this.#note(`a message did not reach ${this.#link.name}: ${wordsOf(error)}`);
  }

  #calls(): BridgeCalls {
    const session = (): Session => {
      if (this.#session) return this.#session;
      throw new SluiceError("unavailable", "bridge: the host has not begun yet");
    };
    const kind = (): RevisionKind | undefined => this.#kind;
    const { limits } = this.#parts;
    return {
      get hostRevision() {
        return kind();
      },
      get hostCapabilities() {
        return session().hostCapabilities;
      },
      callServer: async (method, params, signal) => session().call(method, params, signal),
      notifyHost: (method, params) =>
        this.#host.send({ jsonrpc: "2.0", method, params: { ...params } }),
      askHost: async (method, params, signal) => {
        if (kind() === "legacy")
          return this.#host.ask(method, params, { timeoutMs: limits.askMs, signal });
        throw new SluiceError(
          "unsupported",
          "bridge: a host of 2026-07-28 takes questions only in the result of a call",
        );
      },
    };
  }
}

interface AskedRequest {
  readonly request: JSONRPCRequest;
  readonly abort: AbortController;
}
