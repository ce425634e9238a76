import type { ChangeBatch, Overrides, WatchOptions } from "@sluice/storage";
import type { Mutants } from "./mutant.ts";

/** Changes every batch of a watch. */
function batches(change: () => (batch: ChangeBatch) => ChangeBatch): Overrides {
  return {
    watch: (watch) =>
      async function* (options) {
        const changed = change();
        for await (const batch of watch(options)) yield changed(batch);
      },
  };
}

/** Watches with other options. */
function watches(change: (options: WatchOptions) => WatchOptions): Overrides {
  return { watch: (watch) => (options) => watch(change(options)) };
}

export const watchMutants: Mutants = {
  "watch-armed": {
    flaw: "begins with everything that is there",
    breaks: ({ store }) => ({
      watch: (watch) =>
        async function* (options) {
          let changed = (await store.list()).objects.map(({ key }) => key);
          for await (const batch of watch(options)) {
            yield { ...batch, changed: [...changed, ...(batch.changed ?? [])] };
            changed = [];
          }
        },
    }),
  },
  "watch-change": {
    flaw: "takes names that begin with new for temporary",
    breaks: () =>
      batches(() => ({ changed = [], ...batch }) => ({
        ...batch,
        changed: changed.filter((key) => !key.startsWith("new")),
      })),
  },
  "watch-removal": {
    flaw: "reports removals as changes",
    breaks: () =>
      batches(() => ({ changed = [], removed = [], ...batch }) => ({
        ...batch,
        changed: [...changed, ...removed],
      })),
  },
  "watch-again": {
    flaw: "watches the file and not the name, so that one replacement is the last",
    breaks: () =>
      batches(() => {
        const seen = new Set<string>();
        return ({ changed = [], ...batch }) => {
          const fresh = changed.filter((key) => !seen.has(key));
          for (const key of fresh) seen.add(key);
          return { ...batch, changed: fresh };
        };
      }),
  },
  "watch-prefix": {
    flaw: "reports everything whatever the prefix",
    breaks: () => watches(({ prefix: _forgotten, ...options }) => options),
  },
  "watch-abort": {
    flaw: "throws when it is aborted",
    breaks: () => ({
      watch: (watch) =>
        async function* (options) {
          yield* watch(options);
          options.signal.throwIfAborted();
        },
    }),
  },
  "watch-resume": {
    flaw: "forgets the cursor",
    breaks: () => watches(({ cursor: _forgotten, ...options }) => options),
  },
  "watch-burst": {
    flaw: "keeps a hundred changes and drops the others in silence",
    breaks: () =>
      batches(() => ({ changed = [], ...batch }) => ({ ...batch, changed: changed.slice(0, 100) })),
  },
};
