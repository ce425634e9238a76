import { SluiceError } from "@sluice/core";
import { createBody } from "@sluice/storage/plugin";
import { fails, misreports, type Mutants, opens } from "./mutant.ts";

export const failureMutants: Mutants = {
  "failure-reset": {
    flaw: "calls a broken body unavailable",
    breaks: () =>
      opens((opened) => {
        const reader = opened.body.getReader();
        const body = createBody({
          async next() {
            try {
              return (await reader.read()).value;
            } catch (error) {
              if ((error as { code?: unknown }).code !== "interrupted") throw error;
              throw new SluiceError("unavailable", "memory: read: reset", { cause: error });
            }
          },
          release: (reason) => reader.cancel(reason),
        });
        return { ...opened, body };
      }),
  },
  "failure-stall": {
    flaw: "looks at the signal between chunks only",
    breaks: () => ({
      open:
        (open) =>
        async (key, options = {}) => {
          const { signal, ...rest } = options;
          signal?.throwIfAborted();
          const opened = await open(key, rest);
          const reader = opened.body.getReader();
          const body = createBody({
            async next() {
              signal?.throwIfAborted();
              return (await reader.read()).value;
            },
            release: (reason) => reader.cancel(reason),
          });
          return { ...opened, body };
        },
    }),
  },
  "failure-throttled": {
    flaw: "takes seconds for milliseconds",
    breaks: () =>
      fails((error) =>
        (error as { retryAfterMs?: number }).retryAfterMs === 7000
          ? Object.assign(error, { retryAfterMs: 7 })
          : error,
      ),
  },
  "failure-throttled-date": {
    flaw: "understands no date",
    breaks: () =>
      fails((error) => {
        const { code, retryAfterMs = 0 } = error as { code?: string; retryAfterMs?: number };
        return code === "throttled" && retryAfterMs > 10_000
          ? new SluiceError("throttled", error.message)
          : error;
      }),
  },
  "failure-service": {
    flaw: "takes the service's fault for its own",
    also: ["answer-page"],
    breaks: () => misreports("unavailable", "internal"),
  },
  "failure-denied": {
    flaw: "says that what is forbidden is not there",
    breaks: () => misreports("permission_denied", "not_found"),
  },
  "failure-credentials": {
    flaw: "does not renew its credentials",
    breaks: ({ state }) => ({
      describe: (describe) => async (key, options) => {
        if (state.expired > 0)
          throw new SluiceError("unauthenticated", "memory: describe: refused");
        return describe(key, options);
      },
    }),
  },
  "failure-at-once": {
    flaw: "tries a throttled call again",
    breaks: ({ store, state }) => ({
      describe: (describe) => (key, options) =>
        describe(key, options).catch(async (error: SluiceError) => {
          if (error.code !== "throttled") throw error;
          state.requests++;
          await store.describe(key);
          throw error;
        }),
    }),
  },
  "failure-message": {
    flaw: "puts the URL of the request into the message",
    breaks: () =>
      fails((error) =>
        error.code === "not_found"
          ? new SluiceError("not_found", `${error.message} at https://storage.invalid/?key=hunter2`)
          : error,
      ),
  },
  "failure-cause": {
    flaw: "throws away the cause",
    breaks: () =>
      fails((error) =>
        error.code === "unavailable" ? new SluiceError("unavailable", error.message) : error,
      ),
  },
  "failure-rejects": {
    flaw: "throws for a key that it refuses",
    breaks: () => ({
      remove: (remove) => (key, options) => {
        if (key === "rejects//here") throw new SluiceError("invalid_argument", "memory: remove");
        return remove(key, options);
      },
    }),
  },
  "failure-class": {
    flaw: "throws plain errors with a code",
    breaks: () =>
      fails((error) => {
        if (!SluiceError.is(error)) return error;
        const { message, code, size, retryAfterMs, cause } = error;
        return Object.assign(new Error(message, { cause }), { code, size, retryAfterMs });
      }),
  },
};
