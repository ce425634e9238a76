import { systemClock } from "@sluice/core/async";

/** The connections that fetch one file, as each of them sees them. */
export interface Connections {
  /** How many fetch now. */
  count(): number;
  /** True while the file gets its bytes faster than it can write them: one connection fewer costs no time then. */
  areTooMany(): boolean;
  /** The server refuses this one: as many as there are beside it are the most. */
  refuse(): void;
  /** This one fetches nothing more. Called in the same turn as what decided so: the last one must not leave work behind. */
  leave(): void;
}

const lookEveryMs = 10;

/**
 * Runs `fetch` over one connection, and over up to `most` while the file waits for bytes: after each look over twice as
 * many. When one rejects, `cancel` hears why and is to end the others; that is the reason then.
 */
export async function runConnections(
  {
    most,
    isBusy,
    cancel,
  }: {
    readonly most: number;
    /** True while bytes wait for the file. */
    readonly isBusy: () => boolean;
    readonly cancel: (reason: unknown) => void;
  },
  fetch: (connections: Connections, isFirst: boolean) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let count = 0;
  let allowed = most;
  /** From 0 to 1: how often the file was busy of late. */
  let load = 0;
  const connections: Connections = {
    count: () => count,
    areTooMany: () => load > 0.85 && count > 1,
    refuse: () => void (allowed = count - 1),
    leave: () => void (count -= 1),
  };
  let stopLooking: (() => void) | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      function open(isFirst: boolean): void {
        count += 1;
        const fetching = fetch(connections, isFirst).finally(() => running.delete(fetching));
        running.add(fetching);
        fetching.then(() => void (running.size === 0 && resolve()), reject);
      }
      function look(): void {
        stopLooking = systemClock.schedule(look, lookEveryMs);
        const busy = isBusy();
        load += (Number(busy) - load) / 4;
        if (busy || load > 0.5) return;
        for (let more = Math.min(count, allowed - count); more > 0; more -= 1) open(false);
      }
      open(true);
      if (most > 1) stopLooking = systemClock.schedule(look, lookEveryMs);
    });
  } catch (error) {
    stopLooking?.();
    cancel(error);
    await Promise.allSettled(running);
    throw error;
  }
  stopLooking?.();
}
