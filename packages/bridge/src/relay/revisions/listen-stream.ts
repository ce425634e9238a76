import { SluiceError } from "@sluice/core";
import { defer, type Deferred, LISTEN_METHOD, onAbort, sleep } from "@sluice/core/internal";
import type { JSONRPCNotification } from "@modelcontextprotocol/client";
import type { ServerLink } from "../../upstream/server-link.ts";
import type { HostLink } from "../host-link.ts";
import { membersOf, type Members } from "../../messages/messages.ts";
import { SUBSCRIPTION_KEY, withEnvelope } from "../../messages/envelope.ts";

/** Longest wait for the server to confirm a stream. */
const confirmMs = 10_000;
const longestPauseMs = 30_000;
/** Longest life of one stream: then it is opened again. */
const streamMs = 24 * 3_600_000;

/**
 * Keeps one `subscriptions/listen` open at a server of 2026-07-28, for a host that subscribes as older revisions do.
 * A stream that ends is opened again, until the bridge ends.
 */
export class ListenStream {
  readonly #link: ServerLink;
  readonly #host: HostLink;
  readonly #envelope: () => Members;
  readonly #capabilities: Members;
  readonly #uris = new Set<string>();
  #current:
    | {
        readonly id: string;
        readonly abort: AbortController;
        readonly confirmed: Deferred<Members>;
      }
    | undefined;
  #isStarted = false;

  constructor(link: ServerLink, host: HostLink, capabilities: Members, envelope: () => Members) {
    this.#link = link;
    this.#host = host;
    this.#capabilities = capabilities;
    this.#envelope = envelope;
    onAbort(link.ended, () => this.#close());
  }

  /** Opens the stream for changes of lists, as far as the server announces them. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    void this.#reopen();
  }

  /** Listens to a resource, too. Throws `unsupported` when the server does not take it. */
  async subscribe(uri: string): Promise<void> {
    this.#uris.add(uri);
    const confirmed = await this.#reopen();
    const uris = membersOf(confirmed?.["notifications"])["resourceSubscriptions"];
    if (Array.isArray(uris) && uris.includes(uri)) return;
    this.#uris.delete(uri);
    throw new SluiceError(
      "unsupported",
      "bridge: the server takes no subscription to that resource",
    );
  }

  /** Does not listen to a resource any more. */
  async unsubscribe(uri: string): Promise<void> {
    if (this.#uris.delete(uri)) await this.#reopen();
  }

  /** Takes what belongs to the stream itself. False for a notification that is for the host. */
  take(notice: JSONRPCNotification): boolean {
    if (notice.method !== "notifications/subscriptions/acknowledged") return false;
    const params = membersOf(notice.params);
    if (membersOf(params["_meta"])[SUBSCRIPTION_KEY] === this.#current?.id)
      this.#current?.confirmed.resolve(params);
    return true;
  }

  /** Ends the stream and what waits for it: a timer would keep the process. */
  #close(): void {
    this.#current?.abort.abort();
    this.#current?.confirmed.resolve({});
    this.#current = undefined;
  }

  /** Opens a stream with what is wanted now and closes the one before. Resolves with what the server confirmed. */
  async #reopen(): Promise<Members | undefined> {
    const before = this.#current;
    this.#current = undefined;
    const filter = this.#filter();
    if (Object.keys(filter).length === 0 || this.#link.ended.aborted) {
      this.#end(before);
      return undefined;
    }
    const current = {
      id: this.#host.newId(),
      abort: new AbortController(),
      confirmed: defer<Members>(),
    };
    this.#current = current;
    void this.#hold(current.id, filter, current.abort.signal);
    const late = setTimeout(() => current.confirmed.resolve({}), confirmMs);
    try {
      return await current.confirmed.promise;
    } finally {
      clearTimeout(late);
      this.#end(before);
    }
  }

  #filter(): Members {
    const has = (name: string): boolean =>
      membersOf(this.#capabilities[name])["listChanged"] === true;
    const filter: Record<string, unknown> = {};
    if (has("tools")) filter["toolsListChanged"] = true;
    if (has("prompts")) filter["promptsListChanged"] = true;
    if (has("resources")) filter["resourcesListChanged"] = true;
    if (this.#uris.size > 0) filter["resourceSubscriptions"] = [...this.#uris];
    return filter;
  }

  /** Opens the same stream again for as long as it is the current one. */
  async #hold(id: string, notifications: Members, signal: AbortSignal): Promise<void> {
    for (let pauseMs = 1_000; !signal.aborted; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const startedAt = Date.now();
      const request = {
        jsonrpc: "2.0" as const,
        id,
        method: LISTEN_METHOD,
        params: { notifications },
      };
      try {
        const response = await this.#link.exchange(
          withEnvelope(request, this.#envelope()),
          streamMs,
          signal,
        );
        // a server that refuses it will refuse it again
        if ("error" in response) return this.#current?.confirmed.resolve({});
      } catch {
        // it broke off
      }
      if (Date.now() - startedAt > longestPauseMs) pauseMs = 1_000;
      await sleep(pauseMs, signal).catch(() => {});
    }
  }

  #end(stream: { readonly id: string; readonly abort: AbortController } | undefined): void {
    if (!stream) return;
    stream.abort.abort();
    if (this.#link.hasRequestStreams) return;
    const params = { requestId: stream.id };
    this.#link.send({ jsonrpc: "2.0", method: "notifications/cancelled", params }).catch(() => {});
  }
}
