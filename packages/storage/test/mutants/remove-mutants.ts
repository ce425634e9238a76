import { SluiceError } from "@sluice/core";
import { createBody } from "@sluice/storage/plugin";
import type { Mutants } from "./mutant.ts";

export const removeMutants: Mutants = {
  "remove-gone": {
    flaw: "empties the object instead",
    breaks: ({ store }) => ({
      remove: (remove) => async (key, options) => {
        if (key.startsWith("gone/")) store.put(key, "");
        else await remove(key, options);
      },
    }),
  },
  "remove-missing": {
    flaw: "is not_found where nothing is",
    breaks: ({ store }) => ({
      remove: (remove) => async (key, options) => {
        // at once, as the race of several calls is another rule
        if (key !== "race.txt") await store.describe(key);
        await remove(key, options);
      },
    }),
  },
  "remove-below": {
    flaw: "removes everything below the key",
    breaks: ({ store }) => ({
      remove: (remove) => async (key, options) => {
        await remove(key, options);
        const { objects } = await store.list({ prefix: key });
        for (const below of objects) await store.remove(below.key);
      },
    }),
  },
  "remove-read": {
    flaw: "ends bodies of removed objects early and cleanly",
    breaks: () => {
      const removed = new Set<string>();
      return {
        open: (open) => async (key, options) => {
          const opened = await open(key, options);
          const reader = opened.body.getReader();
          const body = createBody({
            next: async () => (removed.has(key) ? undefined : (await reader.read()).value),
            release: (reason) => reader.cancel(reason),
            signal: options?.signal,
          });
          return { ...opened, body };
        },
        remove: (remove) => async (key, options) => {
          if (key === "read.bin") removed.add(key);
          await remove(key, options);
        },
      };
    },
  },
  "remove-again": {
    flaw: "keeps a mark where the object was",
    breaks: ({ store }) => {
      const marks = new Set<string>();
      return {
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          marks.add(key);
        },
        write: (write) => async (key, options) => {
          if (options?.ifAbsent && marks.has(key)) {
            store.put(key, "");
            return write(key, options).finally(() => void store.remove(key));
          }
          return write(key, options);
        },
      };
    },
  },
  "remove-race": {
    flaw: "fails while another call removes the same object",
    breaks: () => {
      const running = new Set<string>();
      return {
        remove: (remove) => async (key, options) => {
          if (running.has(key)) throw new SluiceError("unavailable", "memory: remove: locked");
          running.add(key);
          await remove(key, options).finally(() => running.delete(key));
        },
      };
    },
  },
  "remove-key": {
    flaw: "takes an illegal key for one that is not there",
    breaks: () => ({
      remove: (remove) => (key, options) =>
        remove(key, options).catch((error: unknown) => {
          if (!(SluiceError.is(error) && error.code === "invalid_argument")) throw error;
        }),
    }),
  },
  "remove-aborted": {
    flaw: "does not look at the signal",
    breaks: () => ({ remove: (remove) => (key) => remove(key) }),
  },
  "remove-failure": {
    flaw: "takes every failure for an object that is gone",
    breaks: () => ({
      remove: (remove) => (key, options) =>
        remove(key, options).catch((error: unknown) => {
          if (SluiceError.is(error) && error.code === "unavailable") return;
          throw error;
        }),
    }),
  },
};
