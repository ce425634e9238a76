import type { JSONRPCMessage, JSONRPCRequest } from "@modelcontextprotocol/client";
import type { OpenConnection } from "../upstream/server-link.ts";
import { isCall, membersOf } from "../messages/messages.ts";

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

  /** `timeoutMs`: the longest wait for each answer. */
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
  async replay(connection: OpenConnection): Promise<void> {
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
    connection: OpenConnection,
    method: string,
    params: JSONRPCRequest["params"],
  ): ReturnType<OpenConnection["exchange"]> {
    const request = { jsonrpc: "2.0" as const, id: this.#newId(), method };
    return connection.exchange(params ? { ...request, params } : request, this.#timeoutMs);
  }
}
