import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage, Overrides } from "@sluice/storage";
import type { Service } from "../reference-service.ts";
import { lists, renames } from "./mutant.ts";
import type { PromiseMutants } from "./promise-mutants.ts";

/** Lists the objects whose keys this finds for a prefix. */
function finds({ store }: Service, isFound: (key: string, prefix: string) => boolean): Overrides {
  return {
    list:
      (list) =>
      async (options = {}) => {
        const { prefix = "" } = options;
        const page = await list(options);
        // additional finds of a prefix come with the last page
        if (prefix === "" || page.cursor !== undefined) return page;
        const { objects } = await store.list();
        const more = objects.filter(({ key }) => !key.startsWith(prefix) && isFound(key, prefix));
        return { ...page, objects: [...page.objects, ...more] };
      },
  };
}

/** Lists with another prefix than the one that is asked for. */
function asks(change: (prefix: string) => string): Overrides {
  return {
    list:
      (list) =>
      (options = {}) =>
        list(
          options.prefix === undefined ? options : { ...options, prefix: change(options.prefix) },
        ),
  };
}

/** Lets a cursor through as it likes; `read` gives the position in it, or `undefined` if it is refused. */
function cursors(
  format: (inner: string, prefix: string) => string,
  read: (cursor: string, prefix: string) => string | undefined,
): Overrides {
  return {
    list:
      (list) =>
      async ({ cursor, ...options }: ListOptions = {}): Promise<ListPage> => {
        const prefix = options.prefix ?? "";
        const position = cursor === undefined ? undefined : read(cursor, prefix);
        if (cursor !== undefined && position === undefined)
          throw new SluiceError("invalid_argument", "memory: list: the cursor is foreign");
        const { objects } = await list({ ...options, limit: 1000 });
        const limit = options.limit ?? 1000;
        // checks the limit as it has to be
        await list(options);
        const rest = position === undefined ? objects : objects.filter(({ key }) => key > position);
        const page = rest.slice(0, limit);
        const last = page.at(-1)?.key;
        return rest.length > limit && last !== undefined
          ? { objects: page, cursor: format(last, prefix) }
          : { objects: page };
      },
  };
}

const toText = (key: string): string => Buffer.from(key).toString("base64url");
const toKey = (text: string): string => Buffer.from(text, "base64url").toString();

function checkOf(text: string): string {
  return Buffer.from(text)
    .reduce((sum, byte) => (sum * 31 + byte) % 997, 7)
    .toString(36)
    .padStart(2, "0");
}

/** Writes to, or removes, another key than the one that is asked for. */
function writesTo(change: (key: string) => string): Overrides {
  return {
    write: (write) => async (key, options) => {
      const writer = await write(change(key), options);
      return { ...writer, commit: async () => ({ ...(await writer.commit()), key }) };
    },
  };
}

function writesStepsTo(change: (key: string) => string): Overrides {
  return {
    writeInSteps: (writeInSteps) => async (key, options) => {
      const writer = await writeInSteps(change(key), options);
      return { ...writer, commit: async () => ({ ...(await writer.commit()), key }) };
    },
  };
}

/** Finds an object by a key that is folded, where the key itself finds none. */
function folds({ store }: Service, fold: (key: string) => string): Overrides {
  const stored = async (key: string): Promise<string> => {
    const { objects } = await store.list();
    if (objects.some((object) => object.key === key)) return key;
    return objects.find((object) => fold(object.key) === fold(key))?.key ?? key;
  };
  return {
    describe: (describe) => async (key, options) => {
      options?.signal?.throwIfAborted();
      return describe(await stored(key), options);
    },
    open: (open) => async (key, options) => {
      options?.signal?.throwIfAborted();
      return open(await stored(key), options);
    },
  };
}

export const spellingMutants: PromiseMutants = {
  "Only keys that start with this string": [
    {
      rule: "list-prefix-literal",
      flaw: "does not look at the case of a prefix",
      breaks: (service) =>
        finds(service, (key, prefix) => key.toLowerCase().startsWith(prefix.toLowerCase())),
    },
    {
      rule: "list-prefix-literal",
      flaw: "takes * and ? in a prefix for wildcards",
      breaks: (service) =>
        finds(service, (key, prefix) => {
          const glob = prefix.replace(/[.+^${}()|[\]\\]/g, "\\$&");
          return new RegExp(`^${glob.replaceAll("?", ".").replaceAll("*", ".*")}`, "u").test(key);
        }),
    },
    {
      rule: "list-prefix-literal",
      flaw: "takes % and _ in a prefix for the wildcards of SQL",
      breaks: (service) =>
        finds(service, (key, prefix) => {
          const like = prefix.replace(/[.+*?^${}()|[\]\\]/g, "\\$&");
          return new RegExp(`^${like.replaceAll("_", ".").replaceAll("%", ".*")}`, "u").test(key);
        }),
    },
    {
      rule: "list-prefix-literal",
      flaw: "takes a prefix for a regular expression",
      breaks: (service) =>
        finds(service, (key, prefix) => {
          try {
            return new RegExp(`^${prefix}`, "u").test(key);
          } catch {
            return false;
          }
        }),
    },
    {
      rule: "list-prefix-literal",
      flaw: "cuts spaces off a prefix",
      breaks: () => asks((prefix) => prefix.trim()),
    },
    {
      rule: "list-prefix-literal",
      flaw: "composes accents in a prefix",
      breaks: () => asks((prefix) => prefix.normalize("NFC")),
    },
    {
      rule: "list-prefix-literal",
      flaw: "decodes %20 in a prefix",
      breaks: () => asks((prefix) => prefix.replaceAll("%20", " ")),
    },
    {
      rule: "list-prefix-literal",
      flaw: "ends a prefix at #",
      breaks: () => asks((prefix) => prefix.split("#")[0] ?? ""),
    },
    {
      rule: "list-prefix-literal",
      flaw: "takes + in a prefix for a space",
      breaks: () => asks((prefix) => prefix.replaceAll("+", " ")),
    },
    {
      rule: "list-prefix-literal",
      flaw: "does not list the object whose key is the prefix itself",
      breaks: () =>
        lists((page, prefix) => ({
          ...page,
          objects: page.objects.filter(({ key }) => key !== prefix),
        })),
    },
    {
      rule: "list-prefix-literal",
      flaw: "makes one slash of two in a prefix",
      breaks: () => asks((prefix) => prefix.replaceAll("//", "/")),
    },
    {
      rule: "list-prefix-literal",
      flaw: "takes a slash off the start of a prefix",
      breaks: () => asks((prefix) => prefix.replace(/^\//, "")),
    },
    {
      rule: "list-prefix-literal",
      flaw: "takes ./ off the start of a prefix",
      breaks: () => asks((prefix) => prefix.replace(/^\.\//, "")),
    },
    {
      rule: "list-all",
      flaw: "does not list names that begin with a dot",
      breaks: () =>
        lists((page) => ({
          ...page,
          objects: page.objects.filter(({ key }) => !/(^|\/)\./.test(key)),
        })),
    },
  ],
  "From an earlier page, also one of another process": [
    {
      rule: "list-cursor-foreign",
      flaw: "looks only at the first letter of a cursor",
      breaks: () =>
        cursors(
          (last) => `v${toText(last)}`,
          (cursor) => (cursor.startsWith("v") ? toKey(cursor.slice(1)) : undefined),
        ),
    },
    {
      rule: "list-cursor-foreign",
      flaw: "takes an empty cursor for none",
      breaks: () => ({
        list:
          (list) =>
          async ({ cursor, ...options } = {}) =>
            list(cursor ? { ...options, cursor } : options),
      }),
    },
    {
      rule: "list-cursor-foreign",
      flaw: "does not look at what is behind the end of a cursor",
      breaks: () => ({
        list:
          (list) =>
          async ({ cursor, ...options } = {}) => {
            if (cursor === undefined) return list(options);
            for (let end = cursor.length; end > 0; end--)
              try {
                return await list({ ...options, cursor: cursor.slice(0, end) });
              } catch (error) {
                if (end === 1 || end < cursor.length - 8) throw error;
              }
            return list({ ...options, cursor });
          },
      }),
    },
    {
      rule: "list-cursor-foreign",
      flaw: "resumes with the cursor of another prefix",
      breaks: () =>
        cursors(
          (last) => `${checkOf(last)}${toText(last)}`,
          (cursor) => {
            const key = toKey(cursor.slice(2));
            return cursor === `${checkOf(key)}${toText(key)}` ? key : undefined;
          },
        ),
    },
    {
      rule: "list-cursor-foreign",
      flaw: "does not look at the case of a cursor",
      breaks: () => {
        const given = new Set<string>();
        return {
          list:
            (list) =>
            async ({ cursor, ...options } = {}) => {
              const meant = [...given].find(
                (known) => known.toLowerCase() === cursor?.toLowerCase(),
              );
              const page = await list(
                cursor === undefined ? options : { ...options, cursor: meant ?? cursor },
              );
              if (page.cursor !== undefined) given.add(page.cursor);
              return page;
            },
        };
      },
    },
  ],
  "Metadata of one object": [
    {
      rule: "key-near",
      flaw: "describes the first object whose key begins with the key",
      breaks: ({ store }) => ({
        describe: (describe) => async (key, options) =>
          describe(key, options).catch(async (error: { code?: string }) => {
            if (error.code !== "not_found") throw error;
            const { objects } = await store.list({ prefix: key, limit: 1 });
            const [first] = objects;
            if (first === undefined) throw error;
            return { ...first, key };
          }),
      }),
    },
    {
      rule: "key-near",
      flaw: "describes a folder that has objects below it",
      breaks: ({ store }) => ({
        describe: (describe) => async (key, options) =>
          describe(key, options).catch(async (error: { code?: string }) => {
            const { objects } = await store.list({ prefix: `${key}/`, limit: 1 });
            if (error.code !== "not_found" || objects.length === 0) throw error;
            return { key, size: 0 };
          }),
      }),
    },
    {
      rule: "key-near",
      flaw: "finds what every JavaScript object has",
      breaks: () => {
        const known: Record<string, unknown> = {};
        return {
          describe: (describe) => async (key, options) =>
            key in known ? { key } : describe(key, options),
        };
      },
    },
    {
      rule: "key-near",
      flaw: "opens an object by another case",
      breaks: (service) => {
        const { open } = folds(service, (key) => key.toLowerCase());
        return open ? { open } : {};
      },
    },
    {
      rule: "key-near",
      flaw: "finds a folder by another case",
      breaks: (service) =>
        folds(service, (key) => {
          const end = key.lastIndexOf("/") + 1;
          return key.slice(0, end).toLowerCase() + key.slice(end);
        }),
    },
    {
      rule: "key-near",
      flaw: "does not look at the case of letters beyond ASCII",
      breaks: (service) =>
        folds(service, (key) => key.replace(/[^\0-\u007f]/gu, (letter) => letter.toLowerCase())),
    },
    {
      rule: "key-near",
      flaw: "finds a name without its last dot",
      breaks: (service) => folds(service, (key) => key.replace(/\.$/, "")),
    },
    {
      rule: "key-near",
      flaw: "finds a name with a space before its end",
      breaks: (service) => folds(service, (key) => key.trim()),
    },
    {
      rule: "key-near",
      flaw: "finds a name in wide letters",
      breaks: (service) => folds(service, (key) => key.normalize("NFKC")),
    },
    {
      rule: "key-near",
      flaw: "takes dots at the start of a name off",
      breaks: () => renames((key) => key.replace(/(^|\/)\.\.\.+/g, "$1")),
    },
    {
      rule: "key-confusable",
      flaw: "refuses two dots anywhere in a key",
      breaks: () =>
        renames((key) => {
          if (/[^/.]\.\.|\.\.[^/.]/.test(key))
            throw new SluiceError("invalid_argument", "memory: the key has ..");
          return key;
        }),
    },
    {
      rule: "key-confusable",
      flaw: "keeps no object that is named like a member of every JavaScript object",
      breaks: () =>
        renames((key) => (/(^|\/)(__proto__|constructor)$/.test(key) ? `${key}.` : key)),
    },
  ],
  "`write`, `writeInSteps` and `remove` take the same spelling": [
    {
      rule: "write-spelling",
      flaw: "writes spaces as %20",
      breaks: () => writesTo((key) => key.replaceAll(" ", "%20")),
    },
    {
      rule: "write-spelling",
      flaw: "decodes %2F in the key of a write",
      breaks: () => writesTo((key) => key.replaceAll("%2F", "/")),
    },
    {
      rule: "write-spelling",
      flaw: "writes in lower case",
      breaks: () => writesTo((key) => key.toLowerCase()),
    },
    {
      rule: "write-spelling",
      flaw: "composes accents in the key of a write",
      breaks: () => writesTo((key) => key.normalize("NFC")),
    },
    {
      rule: "write-spelling",
      flaw: "writes + as a space",
      breaks: () => writesTo((key) => key.replaceAll("+", " ")),
    },
    {
      rule: "write-spelling",
      flaw: "ends the key of a write at # and ?",
      breaks: () => writesTo((key) => key.split(/[#?]/)[0] ?? ""),
    },
    {
      rule: "write-spelling",
      flaw: "replaces signs that some file systems refuse",
      breaks: () => writesTo((key) => key.replace(/[":;=]/g, "_")),
    },
    {
      rule: "steps-spelling",
      flaw: "writes steps with spaces as %20",
      breaks: () => writesStepsTo((key) => key.replaceAll(" ", "%20")),
    },
    {
      rule: "steps-spelling",
      flaw: "writes steps in lower case",
      breaks: () => writesStepsTo((key) => key.toLowerCase()),
    },
    {
      rule: "steps-spelling",
      flaw: "decodes the key of an object in steps",
      breaks: () => writesStepsTo((key) => key.replaceAll("%2F", "/")),
    },
    {
      rule: "remove-near",
      flaw: "ends the key of a removal at # and ?",
      breaks: () => ({
        remove: (remove) => (key, options) => remove(key.split(/[#?]/)[0] || key, options),
      }),
    },
    {
      rule: "remove-near",
      flaw: "removes with spaces as %20",
      breaks: () => ({
        remove: (remove) => (key, options) => remove(key.replaceAll(" ", "%20"), options),
      }),
    },
    {
      rule: "presign-get",
      flaw: "presigns the decoded key",
      breaks: () => ({
        presign: (presign) => (key, options) => presign(key.replaceAll("%20", " "), options),
      }),
    },
  ],
};
