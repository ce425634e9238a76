import { SluiceError } from "@sluice/core";
import type { Exchange, HopAnswer } from "../net/exchange.ts";
import { requestPermit, type Permit, type StreamingClient } from "./permit.ts";
import { pausesMsOf, type StreamSettings } from "./stream-options.ts";

/** The permission to fetch one resource, renewed when it is spent, for any number of receivers. */
export interface Supply {
  /** The permit in force; asks for one when there is none. */
  permit(): Promise<Permit>;
  /** The permit is of no more use. A newer one stays. */
  spend(permit: Permit): void;
  /** Bytes on the answer that brought the permit: whoever comes first has them. */
  takeDirect(permit: Permit): HopAnswer | undefined;
  /** True for an error of `permit()` after which another call may succeed. */
  mayRetry(error: unknown): boolean;
  /** Takes a pause out of the time that all receivers may wait together; false when that is over. */
  mayPause(ms: number, size: number | undefined): boolean;
}

/** A supply through an SDK client. `fallback` fetches where the client's transport has no middleware. */
export function createSupply(
  client: StreamingClient,
  uri: string,
  settings: StreamSettings,
  fallback: Exchange,
): Supply {
  let held: Promise<Permit> | undefined;
  let granted = false;
  const taken = new WeakSet<Permit>();
  let spent: Permit | undefined;
  let pausedMs = 0;

  async function ask(): Promise<Permit> {
    const permit = await requestPermit(client, uri, settings, fallback);
    granted = true;
    return permit;
  }

  return {
    async permit() {
      const before = held;
      // who waited as long as others must not undo what they asked for meanwhile
      if (before && (await before) === spent && held === before) held = undefined;
      held ??= ask();
      try {
        return await held;
      } catch (error) {
        held = undefined;
        throw error;
      }
    },
    spend(permit) {
      spent = permit;
    },
    takeDirect(permit) {
      if (taken.has(permit)) return undefined;
      taken.add(permit);
      return permit.direct;
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
