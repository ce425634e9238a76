import { SluiceError } from "@sluice/core";
import type { OpenedObject } from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import { type Mutants, opens } from "./mutant.ts";

const oneMiB = 1024 * 1024;

/** Watches how a body is used: how many chunks were taken when it was cancelled. */
function onCancel(
  opened: OpenedObject,
  cancel: (taken: number, letGo: () => Promise<void>) => unknown,
): OpenedObject {
  const reader = opened.body.getReader();
  let taken = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        taken++;
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason) {
        await cancel(taken, () => reader.cancel(reason));
      },
    },
    { highWaterMark: 0 },
  );
  return { ...opened, body };
}

export const abortMutants: Mutants = {
  "abort-before-open": {
    flaw: "rejects with its own error when the signal was aborted before",
    breaks: () => ({
      open: (open) => async (key, options) => {
        if (options?.signal?.aborted) throw new DOMException("aborted", "AbortError");
        return open(key, options);
      },
    }),
  },
  "abort-during-open": {
    flaw: "rejects with its own error when the signal was aborted during it",
    breaks: () => ({
      open: (open) => async (key, options) => {
        const opened = await open(key, options);
        if (!options?.signal?.aborted) return opened;
        await opened.body.cancel().catch(() => {});
        throw new DOMException("aborted", "AbortError");
      },
    }),
  },
  "abort-mid-body": {
    flaw: "does not look at the signal once a large object is open",
    breaks: ({ store }) => ({
      open:
        (open) =>
        async (key, options = {}) => {
          const { signal: _forgotten, ...rest } = options;
          const { size = 0 } = await store.describe(key).catch(() => ({ size: 0 }));
          return open(key, size === 3 * oneMiB ? rest : options);
        },
    }),
  },
  "abort-unread": {
    flaw: "never lets go of the first large body that nobody reads",
    breaks: () => {
      let leaked = false;
      return opens((opened) =>
        opened.info.size === oneMiB && !opened.file
          ? onCancel(opened, (taken, letGo) => {
              if (taken > 0 || leaked) return letGo();
              leaked = true;
              return undefined;
            })
          : opened,
      );
    },
  },
  "abort-break": {
    flaw: "never lets go of a body that is left in the middle",
    breaks: () =>
      opens((opened) =>
        opened.info.size === 3 * oneMiB
          ? onCancel(opened, (taken, letGo) => (taken > 0 ? undefined : letGo()))
          : opened,
      ),
  },
  "abort-many": {
    flaw: "has sixty places and gives none back that was cancelled",
    breaks: () => {
      let places = 60;
      return opens((opened) => {
        if (places === 0) {
          void opened.body.cancel();
          throw new SluiceError("unavailable", "memory: open: the pool is empty");
        }
        places--;
        return opened;
      });
    },
  },
  "abort-after-end": {
    flaw: "takes an abort after the end for its own end",
    breaks: () => {
      let ended = false;
      return {
        describe: (describe) => async (key, options) => {
          const info = await describe(key, options);
          options?.signal?.addEventListener("abort", () => (ended = true));
          return info;
        },
        open: (open) => async (key, options) => {
          if (ended) throw new SluiceError("unavailable", "memory: open: closed");
          return open(key, options);
        },
      };
    },
  },
  "abort-close": {
    flaw: "fails when it is closed twice",
    breaks: () => {
      let closed = false;
      return {
        close: (close) => async () => {
          if (closed) throw new Error("closed already");
          closed = true;
          await close();
        },
      };
    },
  },
  "abort-close-watch": {
    flaw: "closes and leaves its watchers waiting",
    breaks: () => ({ close: () => async () => {} }),
  },
  "abort-unhandled": {
    flaw: "leaves a rejection unhandled when an unread body is aborted",
    breaks: () => ({
      open: (open) => async (key, options) => {
        const opened = await open(key, options);
        const reader = opened.body.getReader();
        let taken = 0;
        options?.signal?.addEventListener("abort", () => {
          if (taken === 0) void Promise.reject(new Error("nobody waits for this"));
        });
        const body = createBody({
          async next() {
            taken++;
            return (await reader.read()).value;
          },
          release: (reason) => reader.cancel(reason),
          signal: options?.signal,
        });
        return { ...opened, body };
      },
    }),
  },
};
