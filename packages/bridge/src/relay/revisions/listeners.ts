import type {
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResponse,
  RequestId,
} from "@modelcontextprotocol/client";
import { keyOf } from "@sluice/core/internal";
import {
  codes,
  isMembers,
  membersOf,
  refusal,
  answerTo,
  type Members,
} from "../../messages/messages.ts";
import { SUBSCRIPTION_KEY } from "../../messages/envelope.ts";

/** Streams that one host may hold open. */
const maxListeners = 256;

/** One `subscriptions/listen` of the host. */
interface Listener {
  readonly id: RequestId;
  readonly lists: ReadonlySet<string>;
  readonly uris: ReadonlySet<string>;
}

/** Members of a filter, the capability that each needs, and the notification that it lets through. */
const listFilters = [
  ["toolsListChanged", "tools", "notifications/tools/list_changed"],
  ["promptsListChanged", "prompts", "notifications/prompts/list_changed"],
  ["resourcesListChanged", "resources", "notifications/resources/list_changed"],
] as const;

interface ListenersParts {
  readonly capabilities: Members;
  readonly toHost: (message: JSONRPCNotification | JSONRPCResponse) => void;
  /** Subscribes at the server, or ends that. Throws when the server refuses. */
  readonly subscribe: (uri: string, isWanted: boolean) => Promise<void>;
}

/** Streams of notifications for a host of 2026-07-28, from what an older server sends on its own. */
export class Listeners {
  readonly #parts: ListenersParts;
  readonly #listeners = new Map<string, Listener>();

  constructor(parts: ListenersParts) {
    this.#parts = parts;
  }

  /** Opens a stream: says what it will carry, then carries it. */
  async open(request: JSONRPCRequest): Promise<void> {
    const { id } = request;
    const filter = membersOf(request.params)["notifications"];
    if (!isMembers(filter))
      return this.#parts.toHost(refusal(id, codes.invalidParams, "notifications is required"));
    if (this.#listeners.size >= maxListeners)
      return this.#parts.toHost(refusal(id, codes.internal, "Subscription limit reached"));

    const { capabilities } = this.#parts;
    const honored: Record<string, unknown> = {};
    const lists = new Set<string>();
    for (const [member, capability, method] of listFilters) {
      if (filter[member] !== true) continue;
      if (membersOf(capabilities[capability])["listChanged"] !== true) continue;
      honored[member] = true;
      lists.add(method);
    }
    const wantedUris: readonly unknown[] = Array.isArray(filter["resourceSubscriptions"])
      ? filter["resourceSubscriptions"]
      : [];
    const canSubscribe = membersOf(capabilities["resources"])["subscribe"] === true;
    const uris = await this.#subscribe(
      canSubscribe ? wantedUris.filter((uri) => typeof uri === "string") : [],
    );
    if (uris.length > 0) honored["resourceSubscriptions"] = uris;

    const listener = { id, lists, uris: new Set(uris) };
    this.#parts.toHost({
      jsonrpc: "2.0",
      method: "notifications/subscriptions/acknowledged",
      params: { notifications: honored, _meta: { [SUBSCRIPTION_KEY]: id } },
    });
    if (Object.keys(honored).length === 0) this.#finish(listener);
    else this.#listeners.set(keyOf(id), listener);
  }

  async #subscribe(uris: readonly string[]): Promise<string[]> {
    const takenUris: string[] = [];
    for (const uri of uris) {
      const isKnown = this.#isWanted(uri);
      if (isKnown || (await this.#isTaken(uri))) takenUris.push(uri);
    }
    return takenUris;
  }

  #isTaken(uri: string): Promise<boolean> {
    return this.#parts.subscribe(uri, true).then(
      () => true,
      () => false,
    );
  }

  #isWanted(uri: string): boolean {
    return [...this.#listeners.values()].some(({ uris }) => uris.has(uri));
  }

  /** Ends the stream with this id. False when there is none. */
  close(id: RequestId): boolean {
    const listener = this.#listeners.get(keyOf(id));
    if (!listener) return false;
    this.#listeners.delete(keyOf(id));
    for (const uri of listener.uris)
      if (!this.#isWanted(uri)) this.#parts.subscribe(uri, false).catch(() => {});
    return true;
  }

  /** Sends a change to the streams that want it. False for any other notification. */
  take(notice: JSONRPCNotification): boolean {
    const { method } = notice;
    const params = membersOf(notice.params);
    const isList = listFilters.some(([, , name]) => name === method);
    if (!isList && method !== "notifications/resources/updated") return false;
    for (const { id, lists, uris } of this.#listeners.values()) {
      if (!(isList ? lists.has(method) : uris.has(String(params["uri"])))) continue;
      const _meta = { ...membersOf(params["_meta"]), [SUBSCRIPTION_KEY]: id };
      this.#parts.toHost({ jsonrpc: "2.0", method, params: { ...params, _meta } });
    }
    return true;
  }

  #finish({ id }: Listener): void {
    const result = { resultType: "complete", _meta: { [SUBSCRIPTION_KEY]: id } };
    this.#parts.toHost(answerTo(id, { result }));
  }
}
