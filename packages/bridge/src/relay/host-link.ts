import { randomUUID } from "node:crypto";
import type {
  JSONRPCMessage,
  JSONRPCRequest,
  JSONRPCResponse,
  RequestId,
  Transport,
} from "@modelcontextprotocol/client";
import { keyOf, SluiceError } from "@sluice/core";
import { within } from "@sluice/core/async";
import type { Flow } from "../upstream/upstream.ts";
import { defer, type Deferred } from "./deferred.ts";
import { answerOf, isAnswer, isCall, type Answer, type Members } from "./messages.ts";

/** Messages that may wait for a slow host before the server is no longer read. */
const maxWaiting = 64;

/** How long a question waits, and what ends the wait. */
export interface AskOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The host's end: sends, asks, and holds the server back while the host is slow. */
export class HostLink implements Flow {
  readonly #transport: Transport;
  readonly #asked = new Map<RequestId, (response: JSONRPCResponse) => void>();
  /** No server can guess it: no id of another party is ever one of ours. */
  readonly #prefix = `sluice-${randomUUID()}-`;
  /** Open requests of the server, by the id that the host knows them by: the server's own, or one of ours. */
  readonly #serverRequests = new Map<string, RequestId>();
  #count = 0;
  #waiting = 0;
  #ready: Deferred<void> | undefined;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** A new id that no other party uses. */
  newId(): string {
    return `${this.#prefix}${++this.#count}`;
  }

  ready(): Promise<void> | undefined {
    return this.#ready?.promise;
  }

  /** Sends a message. A host that is gone gets nothing more, which is no fault. */
  send(message: JSONRPCMessage): void {
    this.#waiting++;
    if (this.#waiting > maxWaiting) this.#ready ??= defer();
    const settle = (): void => {
      this.#waiting--;
      if (this.#waiting > maxWaiting / 2) return;
      this.#ready?.resolve();
      this.#ready = undefined;
    };
    this.#transport.send(message).then(settle, settle);
  }

  /** Passes a request of the server on. An id that is still in use with the host is replaced. */
  sendServerRequest(request: JSONRPCRequest): void {
    const isFree = !this.#serverRequests.has(keyOf(request.id));
    const id = isFree ? request.id : this.newId();
    this.#serverRequests.set(keyOf(id), request.id);
    this.send(isFree ? request : { ...request, id });
  }

  /** The response as the server must get it; undefined when the server does not wait for it any more. */
  serverResponse(response: JSONRPCResponse): JSONRPCResponse | undefined {
    const key = keyOf(response.id);
    const id = this.#serverRequests.get(key);
    this.#serverRequests.delete(key);
    if (id === undefined) return undefined;
    return id === response.id ? response : { ...response, id };
  }

  /** Takes back what the server asked on a connection that is gone. */
  cancelServerRequests(reason: string): void {
    const keys = [...this.#serverRequests.keys()];
    this.#serverRequests.clear();
    for (const key of keys) this.#cancel(JSON.parse(key) as RequestId, reason);
  }

  #cancel(requestId: RequestId, reason: string): void {
    this.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
  }

  /** Asks the host something in the name of the bridge. Rejects after `timeoutMs` or an abort, and takes it back. */
  async ask(method: string, params: Members | undefined, options: AskOptions): Promise<Answer> {
    const { timeoutMs, signal } = options;
    const id = this.newId();
    const { promise, resolve } = defer<JSONRPCResponse>();
    this.#asked.set(id, resolve);
    this.send(
      params === undefined
        ? { jsonrpc: "2.0", id, method }
        : { jsonrpc: "2.0", id, method, params },
    );
    const expired = (): SluiceError =>
      new SluiceError("timeout", `bridge: the host did not answer ${method} in time`);
    try {
      return answerOf(await within(promise, { timeoutMs, expired, signal }));
    } catch (error) {
      this.#cancel(id, "no answer came in time");
      throw error;
    } finally {
      this.#asked.delete(id);
    }
  }

  /** Takes an answer to a question of the bridge. False for any other message. */
  takeAnswer(message: JSONRPCMessage): boolean {
    if (!isAnswer(message) || message.id === undefined) return false;
    const resolve = this.#asked.get(message.id);
    resolve?.(message);
    return resolve !== undefined;
  }

  /** True for an id that only this bridge makes, which another party must not use. */
  isOwn(message: JSONRPCMessage): boolean {
    return isCall(message) && typeof message.id === "string" && message.id.startsWith(this.#prefix);
  }
}
