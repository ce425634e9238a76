import { SluiceError } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";

/** A store in memory that can be taken down, and counts what it was asked. */
export interface FailingStore {
  readonly state: StateStore;
  isDown: boolean;
  asked: number;
}

/** Makes one that is up. */
export function createFailingStore(): FailingStore {
  const store = createMemoryStateStore();
  const ask = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    failing.asked += 1;
    if (failing.isDown)
      throw new SluiceError("unavailable", "state store: down", { retryAfterMs: 2_500 });
    return work();
  };
  const failing: FailingStore = {
    isDown: false,
    asked: 0,
    state: {
      shared: false,
      claim: (...args) => ask(() => store.claim(...args)),
      refund: (...args) => ask(() => store.refund(...args)),
      revoke: (...args) => ask(() => store.revoke(...args)),
      put: (...args) => ask(() => store.put(...args)),
      get: (...args) => ask(() => store.get(...args)),
      take: (...args) => ask(() => store.take(...args)),
      bindSession: (...args) => ask(() => store.bindSession(...args)),
      endSession: (...args) => ask(() => store.endSession(...args)),
      isSessionOver: (...args) => ask(() => store.isSessionOver(...args)),
    },
  };
  return failing;
}
