import { SluiceError } from "@sluice/core";
import type { Overrides } from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import { fails, lists, type Mutants, renames } from "./mutant.ts";
import type { Service } from "../reference-service.ts";

/** Serves objects outside the root by keys that begin like this. */
function reaches({ state }: Service, start: string): Overrides {
  return {
    describe: (describe) => async (key, options) =>
      key.startsWith(start) && state.outside.has(key) ? { key } : describe(key, options),
    open: (open) => async (key, options) =>
      key.startsWith(start) && state.outside.has(key)
        ? { info: { key }, body: createBody({ next: async () => undefined }) }
        : open(key, options),
  };
}

export const keyMutants: Mutants = {
  "key-segments": {
    flaw: "takes /./ out of a key",
    breaks: () => renames((key) => key.replace("/./", "/")),
  },
  "key-characters": {
    flaw: "ends a key at NUL",
    breaks: () => renames((key) => key.split("\0")[0] ?? ""),
  },
  "key-length": {
    flaw: "finds that there is no object with such a long key",
    breaks: () =>
      fails((error, key) =>
        key.length > 1024 ? new SluiceError("not_found", "memory: no such object") : error,
      ),
  },
  "key-punctuation": {
    flaw: "ends a key at a question mark",
    breaks: () => renames((key) => key.split("?")[0] ?? ""),
  },
  "key-literal": {
    flaw: "takes %2F for a slash",
    breaks: () => renames((key) => key.replace("%2F", "/")),
  },
  "key-unicode": {
    flaw: "composes accents",
    breaks: () => renames((key) => key.normalize("NFC")),
  },
  "key-case": {
    flaw: "finds an object by another case",
    breaks: () => ({
      describe: (describe) => (key, options) =>
        describe(key, options).catch((error: unknown) => {
          if (key === "case.txt") return describe("Case.txt", options);
          throw error;
        }),
    }),
  },
  "key-folder-prefix": {
    flaw: "takes docs/ for docs and a sign",
    breaks: () => ({
      list:
        (list) =>
        async (options = {}) => {
          const { prefix } = options;
          if (!prefix?.endsWith("/")) return list(options);
          const folder = prefix.slice(0, -1);
          const page = await list({ ...options, prefix: folder });
          const isBelow = ({ key }: { key: string }): boolean =>
            "/-".includes(key.at(folder.length) ?? "?");
          return { ...page, objects: page.objects.filter(isBelow) };
        },
    }),
  },
  "key-devices": {
    flaw: "opens NUL",
    breaks: () => ({
      open: (open) => async (key, options) =>
        key === "NUL"
          ? { info: { key }, body: createBody({ next: async () => undefined }) }
          : open(key, options),
    }),
  },
  "key-sibling": {
    flaw: "tests the start of the path against the name of the root",
    breaks: (service) => reaches(service, "../root"),
  },
  "key-outside": {
    flaw: "follows a link out of the root",
    breaks: (service) => reaches(service, "link-out/"),
  },
};

export const listMutants: Mutants = {
  "list-all": {
    flaw: "lists sizes in blocks",
    breaks: () =>
      lists((page) => ({ ...page, objects: page.objects.map((info) => ({ ...info, size: 512 })) })),
  },
  "list-limit": {
    flaw: "gives one more when three are asked for",
    breaks: () => ({
      list: (list) => (options) => list(options?.limit === 3 ? { ...options, limit: 4 } : options),
    }),
  },
  "list-limit-malformed": {
    flaw: "takes limit 0 for no limit",
    breaks: () => ({
      list:
        (list) =>
        async (options = {}) => {
          const { limit, ...rest } = options;
          return list(limit === 0 ? rest : options);
        },
    }),
  },
  "list-pages": {
    flaw: "skips the first object of a later page of five",
    breaks: () => ({
      list:
        (list) =>
        async (options = {}) => {
          const page = await list(options);
          const isLater = options.limit === 5 && options.cursor !== undefined;
          return isLater ? { ...page, objects: page.objects.slice(1) } : page;
        },
    }),
  },
  "list-empty": {
    flaw: "does not find a store that never held anything",
    breaks: () => {
      let asked = false;
      return {
        describe: (describe) => (key, options) => {
          asked = true;
          return describe(key, options);
        },
        list: (list) => async (options) => {
          const page = await list(options);
          const isNew = !asked && page.objects.length === 0 && !options?.prefix && !options?.cursor;
          if (isNew) throw new SluiceError("not_found", "memory: list: no such bucket");
          return page;
        },
      };
    },
  },
  "list-types": {
    flaw: "lists objects without the types that it stores, and does not say so",
    breaks: () => ({
      list: (list) => async (options) => {
        const page = await list(options);
        const objects = page.objects.map(({ contentType: _type, ...info }) => info);
        return { ...page, objects };
      },
    }),
  },
  "list-prefix": {
    flaw: "takes a prefix for a folder",
    also: ["list-beyond-bmp"],
    breaks: () => ({
      list:
        (list) =>
        (options = {}) =>
          list(
            options.prefix && !options.prefix.endsWith("/")
              ? { ...options, prefix: `${options.prefix}/` }
              : options,
          ),
    }),
  },
  "list-beyond-bmp": {
    flaw: "resumes after the last key of a page by UTF-8, while the pages are in the order of UTF-16",
    breaks: () => {
      const lastKeys = new Map<string, string>();
      return {
        list:
          (list) =>
          async (options = {}) => {
            const { objects, ...page } = await list(options);
            const last = lastKeys.get(options.cursor ?? "");
            const rest = objects.filter(
              ({ key }) =>
                last === undefined || Buffer.compare(Buffer.from(key), Buffer.from(last)) > 0,
            );
            const key = objects.at(-1)?.key;
            if (page.cursor !== undefined && key !== undefined) lastKeys.set(page.cursor, key);
            return { ...page, objects: rest };
          },
      };
    },
  },
  "list-no-match": {
    flaw: "does not find a folder that is not there",
    breaks: () =>
      lists((page, prefix) => {
        if (prefix.includes("/folder/") && page.objects.length === 0)
          throw new SluiceError("not_found", "memory: list: no such folder");
        return page;
      }),
  },
  "list-cursor-lasts": {
    flaw: "keeps cursors in its memory",
    breaks: () => {
      const cursors = new Map<string, string>();
      return {
        list:
          (list) =>
          async ({ cursor, ...options } = {}) => {
            const known = cursor === undefined ? undefined : (cursors.get(cursor) ?? "unknown");
            const page = await list(known === undefined ? options : { ...options, cursor: known });
            if (page.cursor === undefined) return page;
            const name = `cursor-${cursors.size}`;
            cursors.set(name, page.cursor);
            return { ...page, cursor: name };
          },
      };
    },
  },
  "list-cursor-foreign": {
    flaw: "begins again with a cursor that it does not know",
    breaks: () => ({
      list:
        (list) =>
        async ({ cursor, ...options } = {}) => {
          if (cursor === undefined) return list(options);
          return list({ ...options, cursor }).catch(() => list(options));
        },
    }),
  },
  "list-concurrent": {
    flaw: "counts objects in its cursors",
    breaks: () => ({
      list:
        (list) =>
        async ({ cursor, limit = 1000, prefix, ...options } = {}) => {
          if (!Number.isInteger(limit) || limit < 1) return list({ ...options, limit });
          const [, skipped] = /^after-(\d+)$/.exec(cursor ?? "after-0") ?? [];
          if (skipped === undefined) return list({ ...options, cursor: "unknown" });
          const { objects } = await list(prefix === undefined ? options : { ...options, prefix });
          const next = Number(skipped) + limit;
          const page = objects.slice(Number(skipped), next);
          return next < objects.length
            ? { objects: page, cursor: `after-${next}` }
            : { objects: page };
        },
    }),
  },
  "list-clutter": {
    flaw: "lists temporary files and folder markers",
    breaks: ({ state }) =>
      lists((page) => ({
        ...page,
        objects: [...page.objects, ...[...state.clutter].map((key) => ({ key }))],
      })),
  },
  "list-opens": {
    flaw: "lists keys as they stand in URLs",
    also: ["list-beyond-bmp"],
    breaks: () =>
      lists((page) => ({
        ...page,
        objects: page.objects.map((info) => ({ ...info, key: encodeURI(info.key) })),
      })),
  },
};
