import { SluiceError } from "@sluice/core";
import type { OpenOptions, Overrides } from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import { mapChunks, type Mutants, opens } from "./mutant.ts";

const oneMiB = 1024 * 1024;

/** Understands `ifMatch` in its own way. */
function matches(
  change: (ifMatch: string, key: string, options: OpenOptions) => string | undefined,
): Overrides {
  return {
    open:
      (open) =>
      async (key, options = {}) => {
        const { ifMatch, ...rest } = options;
        const meant = ifMatch === undefined ? undefined : change(ifMatch, key, options);
        return open(key, meant === undefined ? rest : { ...rest, ifMatch: meant });
      },
  };
}

export const conditionMutants: Mutants = {
  "condition-current": {
    flaw: "refuses every etag where the whole is wanted",
    also: ["condition-listed"],
    breaks: () => matches((ifMatch, _, { range }) => (range ? ifMatch : `${ifMatch}?`)),
  },
  "condition-stale": {
    flaw: "is content when the wanted etag begins like the present one",
    breaks: ({ store }) => ({
      open:
        (open) =>
        async (key, options = {}) => {
          const { etag = "" } = await store.describe(key).catch(() => ({ etag: "" }));
          const { ifMatch, ...rest } = options;
          const isClose = etag !== "" && ifMatch?.startsWith(etag) && !options.range;
          return open(key, isClose ? rest : options);
        },
    }),
  },
  "condition-range": {
    flaw: "forgets ifMatch when there is a range",
    breaks: () => matches((ifMatch, _, { range }) => (range ? undefined : ifMatch)),
  },
  "condition-replaced": {
    flaw: "compares ifMatch with the description it remembers",
    breaks: () => {
      const remembered = new Map<string, string | undefined>();
      return {
        ...matches((ifMatch, key) => (remembered.get(key) === ifMatch ? undefined : ifMatch)),
        describe: (describe) => async (key, options) => {
          const info = await describe(key, options);
          remembered.set(key, info.etag);
          return info;
        },
      };
    },
  },
  "condition-mixed": {
    flaw: "opens the object anew for every chunk",
    breaks: ({ backend }) => ({
      open:
        (open) =>
        async (key, options = {}) => {
          const opened = await open(key, options);
          const { size = 0 } = opened.info;
          if (size <= 2 * oneMiB || options.range || size > 8 * oneMiB) return opened;
          await opened.body.cancel();
          let start = 0;
          const body = createBody({
            async next() {
              if (start >= size) return undefined;
              const range = { start, end: start + oneMiB };
              start += oneMiB;
              const part = await backend.open(key, { ...options, range });
              return new Uint8Array(await new Response(part.body).arrayBuffer());
            },
            signal: options.signal,
          });
          return { info: opened.info, body };
        },
    }),
  },
  "condition-removed": {
    flaw: "ends where the object was removed",
    also: ["remove-read"],
    breaks: ({ store }) =>
      opens((opened, key) => {
        const reader = opened.body.getReader();
        const body = createBody({
          next: async () =>
            (await store.describe(key).catch(() => undefined)) && (await reader.read()).value,
          release: (reason) => reader.cancel(reason),
        });
        return { ...opened, body };
      }),
  },
  "condition-listed": {
    flaw: "lists etags in quotes",
    breaks: () => ({
      list: (list) => async (options) => {
        const page = await list(options);
        return {
          ...page,
          objects: page.objects.map((info) => ({ ...info, etag: `"${info.etag}"` })),
        };
      },
    }),
  },
  "condition-syntax": {
    flaw: "takes quotes and W/ off ifMatch",
    breaks: () => matches((ifMatch) => ifMatch.replace(/^(W\/)?"(.*)"$/, "$2")),
  },
};

export const digestMutants: Mutants = {
  "failure-truncated": {
    flaw: "fills up what is missing with zeros",
    breaks: () =>
      opens((opened) => {
        const { size = 0 } = opened.info;
        if (opened.range || size < oneMiB / 2 || size > 8 * oneMiB) return opened;
        const reader = opened.body.getReader();
        let sent = 0;
        const body = createBody({
          async next() {
            const { value } = await reader.read();
            const chunk = value ?? new Uint8Array(size - sent);
            sent += chunk.byteLength;
            return chunk.byteLength > 0 ? chunk : undefined;
          },
          release: (reason) => reader.cancel(reason),
        });
        return { ...opened, body };
      }),
  },
  "failure-overrun": {
    flaw: "cuts off what is too much",
    breaks: () =>
      opens((opened) => {
        const { info, range } = opened;
        const length = range ? range.end - range.start : (info.size ?? 0);
        return mapChunks(opened, (chunk, position) =>
          position >= length ? undefined : chunk.subarray(0, length - position),
        );
      }),
  },
  "failure-digest": {
    flaw: "writes digests in capitals",
    breaks: () => ({
      describe: (describe) => async (key, options) => {
        const info = await describe(key, options);
        const sha256 = info.digests?.sha256?.toUpperCase();
        return sha256 ? { ...info, digests: { sha256 } } : info;
      },
    }),
  },
  "failure-recovers": {
    flaw: "is in no state to open anything once a signal was aborted",
    breaks: () => {
      let failed = false;
      return {
        open: (open) => async (key, options) => {
          if (failed) throw new SluiceError("unavailable", "memory: open: the pool is closed");
          failed = options?.signal?.aborted === true;
          return open(key, options);
        },
      };
    },
  },
};
