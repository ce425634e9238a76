import { randomUUID } from "node:crypto";
import type {
  JSONRPCMessage,
  JSONRPCRequest,
  JSONRPCResponse,
  RequestId,
  Transport,
} from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { defer, type Deferred, keyOf, within } from "@sluice/core/internal";
import type { Flow } from "../upstream/upstream.ts";
import { keyIn } from "../messages/ids.ts";
import {
  answerOf,
  codes,
  isAnswer,
  isCall,
  refusal,
  type Answer,
  type Members,
} from "../messages/messages.ts";

/** Messages, and their characters, that may wait for a slow host before the server is no longer read. */
const maxWaiting = 64;
const maxWaitingSize = 2 ** 20;
/** Requests of the server that the host has not answered. */
const maxServerRequests = 1_000;

interface AskOptions {
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
  #waitingSize = 0;
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

  /**
   * Sends a message. A disconnected host gets nothing more, without an error. A message nested too deep to be written
   * is dropped; a response becomes an error.
   */
  send(message: JSONRPCMessage): void {
    const size = sizeOf(message);
    if (!Number.isNaN(size)) this.#send(message, size);
    else if (isAnswer(message) && message.id !== undefined) {
      const words = "The server's answer is nested too deep: it was dropped.";
      this.send(refusal(message.id, codes.internal, words));
    }
  }

  #send(message: JSONRPCMessage, size: number): void {
    this.#waiting++;
    this.#waitingSize += size;
    if (this.#isBehind(1)) this.#ready ??= defer();
    const settle = (): void => {
      this.#waiting--;
      this.#waitingSize -= size;
      if (this.#isBehind(0.5)) return;
      this.#ready?.resolve();
      this.#ready = undefined;
    };
    this.#transport.send(message).then(settle, settle);
  }

  #isBehind(share: number): boolean {
    return this.#waiting > maxWaiting * share || this.#waitingSize > maxWaitingSize * share;
  }

  /**
   * Passes a request of the server on. An id that is still in use with the host is replaced. False when the host has too
   * many to answer, or the request is nested too deep.
   */
  sendServerRequest(request: JSONRPCRequest): boolean {
    const size = sizeOf(request);
    if (Number.isNaN(size) || this.#serverRequests.size >= maxServerRequests) return false;
    const isFree = !this.#serverRequests.has(keyOf(request.id));
    const id = isFree ? request.id : this.newId();
    this.#serverRequests.set(keyOf(id), request.id);
    this.#send(isFree ? request : { ...request, id }, size);
    return true;
  }

  /** The response as the server must get it; undefined when the server does not wait for it any more. */
  serverResponse(response: JSONRPCResponse): JSONRPCResponse | undefined {
    const key = keyIn(this.#serverRequests, response.id);
    const id = key === undefined ? undefined : this.#serverRequests.get(key);
    if (key === undefined || id === undefined) return undefined;
    this.#serverRequests.delete(key);
    return id === response.id ? response : { ...response, id };
  }

  /** Forgets a request that the server takes back: its host need not answer. */
  endServerRequest(id: RequestId): void {
    this.#serverRequests.delete(keyOf(id));
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

/** Deepest nesting of a message, as in `readJson` of @sluice/core. */
const maxLevels = 128;

/** Characters that a value of JSON takes, roughly; `NaN` where it is nested deeper than 128 levels. */
export function sizeOf(value: unknown, level = 0): number {
  if (typeof value === "string") return value.length + 3;
  if (typeof value !== "object" || value === null) return 6;
  if (level >= maxLevels) return Number.NaN;
  let size = 2;
  if (Array.isArray(value)) for (const item of value) size += sizeOf(item, level + 1);
  else
    for (const [name, member] of Object.entries(value))
      size += name.length + 3 + sizeOf(member, level + 1);
  return size;
}
