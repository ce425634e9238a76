import { SluiceError } from "@sluice/core";
import type { HopExchange, HopAnswer } from "../net/exchange.ts";
import type { RequestingClient } from "../calls/stream-calls.ts";
import type { DownloadGrant } from "./download-grant.ts";
import { requestGrant } from "./request-grant.ts";
import { type StreamSettings, pausesMsOf } from "./stream-options.ts";

/**
 * The permission to fetch one resource, renewed when used up, for any number of connections. `fallback` fetches if the
 * client's transport has no middleware.
 */
export class GrantProvider {
  readonly #client: RequestingClient;
  readonly #uri: string;
  readonly #settings: StreamSettings;
  readonly #fallback: HopExchange;
  #heldGrant: Promise<DownloadGrant> | undefined;
  #granted = false;
  readonly #takenGrants = new WeakSet<DownloadGrant>();
  #spent: DownloadGrant | undefined;
  #pausedMs = 0;

  constructor(
    client: RequestingClient,
    uri: string,
    settings: StreamSettings,
    fallback: HopExchange,
  ) {
    this.#client = client;
    this.#uri = uri;
    this.#settings = settings;
    this.#fallback = fallback;
  }

  /** The grant in force; asks for one when there is none. */
  async grant(): Promise<DownloadGrant> {
    const before = this.#heldGrant;
    // of several callers that waited for the same grant, only the first asks for another
    if (before && (await before) === this.#spent && this.#heldGrant === before)
      this.#heldGrant = undefined;
    this.#heldGrant ??= this.#ask();
    try {
      return await this.#heldGrant;
    } catch (error) {
      this.#heldGrant = undefined;
      throw error;
    }
  }

  /** The grant is of no more use. A newer one stays. */
  spend(grant: DownloadGrant): void {
    this.#spent = grant;
  }

  /** Bytes on the answer that brought the grant: the first call takes them. */
  takeDirect(grant: DownloadGrant): HopAnswer | undefined {
    if (this.#takenGrants.has(grant)) return undefined;
    this.#takenGrants.add(grant);
    return grant.direct;
  }

  /** Deducts a pause from the time that all connections may wait together; false when that is used up. */
  mayPause(ms: number, size: number | undefined): boolean {
    this.#pausedMs += ms;
    return this.#pausedMs <= pausesMsOf(this.#settings.timeouts, size);
  }

  /** True for an error of `grant()` after which another call may succeed. */
  mayRetry(error: unknown): boolean {
    if (!SluiceError.is(error)) return false;
    // before anything was granted, only a server that asks for patience gets it
    const isAsked = error.code === "throttled" || error.retryAfterMs !== undefined;
    return error.retryable && (this.#granted || isAsked);
  }

  async #ask(): Promise<DownloadGrant> {
    const grant = await requestGrant(this.#client, this.#uri, this.#settings, this.#fallback);
    this.#granted = true;
    return grant;
  }
}
