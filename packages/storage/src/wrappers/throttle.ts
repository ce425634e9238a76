import { SluiceError } from "@sluice/core";
import { sleep, systemClock } from "@sluice/core/internal";
import { type Repeat, type StorageBackend, withKept } from "../contract/backend.ts";
import { type Surroundings, wrapBackend, wrapStepWriter, wrapWriter } from "./wrap.ts";

const defaultPauseMs = 1000;

/** Settings of {@link withThrottle}. */
export interface ThrottleOptions {
  /** Longest time a call waits for a throttling service; then `throttled`. Default: 20 s. */
  readonly maxWaitMs?: number;
}

/**
 * Pauses the whole backend after a `throttled` error: services also count refused calls. Every call waits until
 * `retryAfterMs` (or one second) has passed, not only the refused one. A call that would wait too long rejects
 * with `throttled` and the time that is left. An abort ends the wait.
 */
export function withThrottle(
  backend: StorageBackend,
  options: ThrottleOptions & Surroundings = {},
): StorageBackend {
  const { maxWaitMs = 20_000, clock = systemClock } = options;
  let opensAt = -Infinity;

  const pass = async <T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
    const latest = clock.now() + maxWaitMs;
    for (let now = clock.now(); now < opensAt; now = clock.now()) {
      if (opensAt > latest)
        throw new SluiceError("throttled", `${backend.name}: the service asked for a pause`, {
          retryAfterMs: opensAt - now,
        });
      await sleep(opensAt - now, signal, clock);
    }
    return heed(call);
  };
  const heed = async <T>(call: () => Promise<T>): Promise<T> => {
    try {
      return await call();
    } catch (error) {
      if (SluiceError.is(error) && error.code === "throttled")
        opensAt = Math.max(opensAt, clock.now() + (error.retryAfterMs ?? defaultPauseMs));
      throw error;
    }
  };

  const paced = (outer: Repeat | undefined): { readonly repeat?: Repeat } =>
    outer ? { repeat: (send, signal) => outer(() => pass(send, signal), signal) } : {};

  return wrapBackend(backend, {
    describe: (describe) => (key, call) => pass(() => describe(key, call), call?.signal),
    // objects in memory need no request
    open: (open) =>
      withKept((key, call) => pass(() => open(key, call), call?.signal), open.inMemory),
    list: (list) => (call) => pass(() => list(call), call?.signal),
    presign: (presign) => (key, call) => pass(() => presign(key, call), call.signal),
    remove: (remove) => (key, call) => pass(() => remove(key, call), call?.signal),
    write: (write) => async (key, call) => {
      const pacedCall = { ...call, ...paced(call?.repeat) };
      const writer = await pass(() => write(key, pacedCall), call?.signal);
      return wrapWriter(writer, {
        write: (chunk) => heed(() => writer.write(chunk)),
        commit: () => heed(() => writer.commit()),
      });
    },
    writeInSteps: (writeInSteps) => async (key, call) => {
      const pacedCall = { ...call, ...paced(call?.repeat) };
      const writer = await pass(() => writeInSteps(key, pacedCall), call?.signal);
      return wrapStepWriter(writer, {
        write: (chunk) => heed(() => writer.write(chunk)),
        suspend: () => heed(() => writer.suspend()),
        commit: () => heed(() => writer.commit()),
      });
    },
  });
}
