import { SluiceError } from "@sluice/core";
import {
  type ListOptions,
  type ObjectInfo,
  type Overrides,
  type StorageBackend,
} from "@sluice/storage";
import { describes, fails, type Mutants } from "./mutant.ts";

/** The same object without one of its facts. */
function without(info: ObjectInfo, fact: keyof ObjectInfo): ObjectInfo {
  return Object.fromEntries(Object.entries(info).filter(([name]) => name !== fact)) as never;
}

/** Shows every etag in another form, and understands that form. */
function showsEtags(form: (etag: string) => string): Overrides {
  const shown = <T extends ObjectInfo>(info: T): T =>
    info.etag === undefined ? info : { ...info, etag: form(info.etag) };
  const meant = (etag: string | undefined, info: ObjectInfo | undefined): object =>
    etag === undefined
      ? {}
      : { ifMatch: info?.etag && form(info.etag) === etag ? info.etag : etag };
  let describeTrue: StorageBackend["describe"];
  const present = (key: string): Promise<ObjectInfo | undefined> =>
    describeTrue(key).catch(() => undefined);
  return {
    describe: (describe) => {
      describeTrue = describe;
      return async (key, options) => shown(await describe(key, options));
    },
    open:
      (open) =>
      async (key, options = {}) => {
        if (options.ifMatch === undefined) {
          const opened = await open(key, options);
          return { ...opened, info: shown(opened.info) };
        }
        const opened = await open(key, {
          ...options,
          ...meant(options.ifMatch, await present(key)),
        });
        return { ...opened, info: shown(opened.info) };
      },
    list: (list) => async (options?: ListOptions) => {
      const page = await list(options);
      return { ...page, objects: page.objects.map(shown) };
    },
    write:
      (write) =>
      async (key, options = {}) => {
        const writer = await write(key, {
          ...options,
          ...meant(options.ifMatch, options.ifMatch === undefined ? undefined : await present(key)),
        });
        return { ...writer, commit: async () => shown(await writer.commit()) };
      },
  };
}

export const describeMutants: Mutants = {
  "describe-facts": {
    flaw: "gives the epoch as the time of the last change",
    breaks: () => describes((info) => ({ ...info, lastModified: new Date(0) })),
  },
  "describe-missing": {
    flaw: "gives keys below an object its own failure",
    breaks: () =>
      fails((error, key) =>
        key === "there.txt/below" ? new SluiceError("internal", "memory: not a folder") : error,
      ),
  },
  "describe-no-content": {
    flaw: "reads the object to describe it",
    breaks: ({ backend }) => ({
      describe: (describe) => async (key, options) => {
        const info = await describe(key, options);
        const reader = (await backend.open(key, options)).body.getReader();
        await reader.read();
        await reader.cancel();
        return info;
      },
    }),
  },
  "describe-empty": {
    flaw: "takes size 0 for an unknown size",
    breaks: () => describes((info) => (info.size === 0 ? without(info, "size") : info)),
  },
  "describe-large": {
    flaw: "keeps sizes in 32 bits",
    breaks: () => describes((info) => ({ ...info, size: (info.size ?? 0) >>> 0 })),
  },
  "describe-etag-stable": {
    flaw: "gives another etag after the object was opened",
    breaks: () => {
      const opened = new Set<string>();
      return {
        ...describes((info, key) =>
          opened.delete(key) ? { ...info, etag: `${info.etag}-read` } : info,
        ),
        open: (open) => async (key, options) => {
          if (options === undefined) opened.add(key);
          return open(key, options);
        },
      };
    },
  },
  "describe-etag-changes": {
    flaw: "makes the etag from name and length",
    also: ["describe-etag-not-reused"],
    breaks: () => {
      const known = new Map<string, string | undefined>();
      return describes((info) => {
        const name = `${info.key} ${info.size}`;
        if (!known.has(name)) known.set(name, info.etag);
        return { ...info, etag: known.get(name) ?? "" };
      });
    },
  },
  "describe-etag-syntax": {
    flaw: "puts etags in quotes",
    breaks: () => showsEtags((etag) => `"${etag}"`),
  },
  "describe-etag-not-reused": {
    flaw: "counts versions with one bit",
    breaks: () => showsEtags((etag) => `v${Number(etag.split("-")[1]) % 2}`),
  },
  "describe-type": {
    flaw: "calls everything bytes",
    breaks: () => describes((info) => (info.contentType ? { ...info, contentType: "a/b" } : info)),
  },
  "describe-type-not-guessed": {
    flaw: "guesses the type of text from the name",
    breaks: () =>
      describes((info) =>
        info.key === "guess.txt" ? { ...info, contentType: "text/plain" } : info,
      ),
  },
  "describe-canonical": {
    flaw: "answers with the caller's spelling",
    breaks: () => describes((info, key) => ({ ...info, key })),
  },
  "describe-aborted": {
    flaw: "does not look at the signal before it asks",
    breaks: () => ({
      describe: (describe) => (key) => describe(key),
    }),
  },
};
