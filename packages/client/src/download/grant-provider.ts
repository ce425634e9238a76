import { SluiceError } from "@sluice/core";
import type { HopAnswer, HopExchange } from "../net/exchange.ts";
import type { RequestingClient } from "../calls/stream-calls.ts";
import type { DownloadGrant } from "./download-grant.ts";
import { requestGrant } from "./request-grant.ts";
import { type StreamSettings, pausesMsOf } from "./stream-options.ts";

/** The permission to fetch one resource, renewed when used up, for any number of connections. */
export interface GrantProvider {
  /** The grant in force; asks for one when there is none. */
  grant(): Promise<DownloadGrant>;
  /** The grant is of no more use. A newer one stays. */
  spend(grant: DownloadGrant): void;
  /** Bytes on the response that brought the grant: the first call takes them. */
  takeDirect(grant: DownloadGrant): HopAnswer | undefined;
  /** True for an error of `grant()` after which another call may succeed. */
  mayRetry(error: unknown): boolean;
  /** Deducts a pause from the time that all connections may wait together; false when that is used up. */
  mayPause(ms: number, size: number | undefined): boolean;
}

/** The grants of one resource at an SDK client. `fallback` fetches if the client's transport has no middleware. */
export function grantsOf(
  client: RequestingClient,
  uri: string,
  settings: StreamSettings,
  fallback: HopExchange,
): GrantProvider {
  let heldGrant: Promise<DownloadGrant> | undefined;
  let granted = false;
  let untaken: DownloadGrant | undefined;
  let spent: DownloadGrant | undefined;
  let pausedMs = 0;

  async function ask(): Promise<DownloadGrant> {
    const grant = await requestGrant(client, uri, settings, fallback);
    granted = true;
    untaken = grant;
    return grant;
  }

  return {
    async grant() {
      const before = heldGrant;
      // of several callers that waited for the same grant, only the first asks for another
      if (before && (await before) === spent && heldGrant === before) heldGrant = undefined;
      heldGrant ??= ask();
      try {
        return await heldGrant;
      } catch (error) {
        heldGrant = undefined;
        throw error;
      }
    },
    spend(grant) {
      spent = grant;
    },
    takeDirect(grant) {
      if (grant !== untaken) return undefined;
      untaken = undefined;
      return grant.direct;
    },
    mayPause(ms, size) {
      pausedMs += ms;
      return pausedMs <= pausesMsOf(settings.timeouts, size);
    },
    mayRetry(error) {
      if (!SluiceError.is(error)) return false;
      // before anything was granted, only a server that asks for patience gets it
      const isAsked = error.code === "throttled" || error.retryAfterMs !== undefined;
      return error.retryable && (granted || isAsked);
    },
  };
}
