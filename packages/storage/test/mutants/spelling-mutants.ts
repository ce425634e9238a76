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
  "Only keys that start with this string": {
    "list-prefix-literal": {
      "does not look at the case of a prefix": (service) =>
        finds(service, (key, prefix) => key.toLowerCase().startsWith(prefix.toLowerCase())),
      "takes * and ? in a prefix for wildcards": (service) =>
        finds(service, (key, prefix) => {
          const glob = prefix.replace(/[.+^${}()|[\]\\]/g, "\\$&");
          return new RegExp(`^${glob.replaceAll("?", ".").replaceAll("*", ".*")}`, "u").test(key);
        }),
      "takes % and _ in a prefix for the wildcards of SQL": (service) =>
        finds(service, (key, prefix) => {
          const like = prefix.replace(/[.+*?^${}()|[\]\\]/g, "\\$&");
          return new RegExp(`^${like.replaceAll("_", ".").replaceAll("%", ".*")}`, "u").test(key);
        }),
      "takes a prefix for a regular expression": (service) =>
        finds(service, (key, prefix) => {
          try {
            return new RegExp(`^${prefix}`, "u").test(key);
          } catch {
            return false;
          }
        }),
      "cuts spaces off a prefix": () => asks((prefix) => prefix.trim()),
      "composes accents in a prefix": () => asks((prefix) => prefix.normalize("NFC")),
      "decodes %20 in a prefix": () => asks((prefix) => prefix.replaceAll("%20", " ")),
      "ends a prefix at #": () => asks((prefix) => prefix.split("#")[0] ?? ""),
      "takes + in a prefix for a space": () => asks((prefix) => prefix.replaceAll("+", " ")),
      "does not list the object whose key is the prefix itself": () =>
        lists((page, prefix) => ({
          ...page,
          objects: page.objects.filter(({ key }) => key !== prefix),
        })),
      "makes one slash of two in a prefix": () => asks((prefix) => prefix.replaceAll("//", "/")),
      "takes a slash off the start of a prefix": () => asks((prefix) => prefix.replace(/^\//, "")),
      "takes ./ off the start of a prefix": () => asks((prefix) => prefix.replace(/^\.\//, "")),
    },
    "list-all": {
      "does not list names that begin with a dot": () =>
        lists((page) => ({
          ...page,
          objects: page.objects.filter(({ key }) => !/(^|\/)\./.test(key)),
        })),
    },
  },
  "From an earlier page, also one of another process": {
    "list-cursor-foreign": {
      "looks only at the first letter of a cursor": () =>
        cursors(
          (last) => `v${toText(last)}`,
          (cursor) => (cursor.startsWith("v") ? toKey(cursor.slice(1)) : undefined),
        ),
      "takes an empty cursor for none": () => ({
        list:
          (list) =>
          async ({ cursor, ...options } = {}) =>
            list(cursor ? { ...options, cursor } : options),
      }),
      "does not look at what is behind the end of a cursor": () => ({
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
      "resumes with the cursor of another prefix": () =>
        cursors(
          (last) => `${checkOf(last)}${toText(last)}`,
          (cursor) => {
            const key = toKey(cursor.slice(2));
            return cursor === `${checkOf(key)}${toText(key)}` ? key : undefined;
          },
        ),
      "does not look at the case of a cursor": () => {
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
  },
  "Metadata of one object": {
    "key-near": {
      "describes the first object whose key begins with the key": ({ store }) => ({
        describe: (describe) => async (key, options) =>
          describe(key, options).catch(async (error: { code?: string }) => {
            if (error.code !== "not_found") throw error;
            const { objects } = await store.list({ prefix: key, limit: 1 });
            const [first] = objects;
            if (first === undefined) throw error;
            return { ...first, key };
          }),
      }),
      "describes a folder that has objects below it": ({ store }) => ({
        describe: (describe) => async (key, options) =>
          describe(key, options).catch(async (error: { code?: string }) => {
            const { objects } = await store.list({ prefix: `${key}/`, limit: 1 });
            if (error.code !== "not_found" || objects.length === 0) throw error;
            return { key, size: 0 };
          }),
      }),
      "finds what every JavaScript object has": () => {
        const known: Record<string, unknown> = {};
        return {
          describe: (describe) => async (key, options) =>
            key in known ? { key } : describe(key, options),
        };
      },
      "opens an object by another case": (service) => {
        const { open } = folds(service, (key) => key.toLowerCase());
        return open ? { open } : {};
      },
      "finds a folder by another case": (service) =>
        folds(service, (key) => {
          const end = key.lastIndexOf("/") + 1;
          return key.slice(0, end).toLowerCase() + key.slice(end);
        }),
      "does not look at the case of letters beyond ASCII": (service) =>
        folds(service, (key) => key.replace(/[^\0-\u007f]/gu, (letter) => letter.toLowerCase())),
      "finds a name without its last dot": (service) =>
        folds(service, (key) => key.replace(/\.$/, "")),
      "finds a name with a space before its end": (service) => folds(service, (key) => key.trim()),
      "finds a name in wide letters": (service) => folds(service, (key) => key.normalize("NFKC")),
      "takes dots at the start of a name off": () =>
        renames((key) => key.replace(/(^|\/)\.\.\.+/g, "$1")),
    },
    "key-confusable": {
      "refuses two dots anywhere in a key": () =>
        renames((key) => {
          if (/[^/.]\.\.|\.\.[^/.]/.test(key))
            throw new SluiceError("invalid_argument", "memory: the key has ..");
          return key;
        }),
      "keeps no object that is named like a member of every JavaScript object": () =>
        renames((key) => (/(^|\/)(__proto__|constructor)$/.test(key) ? `${key}.` : key)),
    },
  },
  "`write`, `writeInSteps` and `remove` take the same spelling": {
    "write-spelling": {
      "writes spaces as %20": () => writesTo((key) => key.replaceAll(" ", "%20")),
      "decodes %2F in the key of a write": () => writesTo((key) => key.replaceAll("%2F", "/")),
      "writes in lower case": () => writesTo((key) => key.toLowerCase()),
      "composes accents in the key of a write": () => writesTo((key) => key.normalize("NFC")),
      "writes + as a space": () => writesTo((key) => key.replaceAll("+", " ")),
      "ends the key of a write at # and ?": () => writesTo((key) => key.split(/[#?]/)[0] ?? ""),
      "replaces signs that some file systems refuse": () =>
        writesTo((key) => key.replace(/[":;=]/g, "_")),
    },
    "steps-spelling": {
      "writes steps with spaces as %20": () => writesStepsTo((key) => key.replaceAll(" ", "%20")),
      "writes steps in lower case": () => writesStepsTo((key) => key.toLowerCase()),
      "decodes the key of an object in steps": () =>
        writesStepsTo((key) => key.replaceAll("%2F", "/")),
    },
    "remove-near": {
      "ends the key of a removal at # and ?": () => ({
        remove: (remove) => (key, options) => remove(key.split(/[#?]/)[0] || key, options),
      }),
      "removes with spaces as %20": () => ({
        remove: (remove) => (key, options) => remove(key.replaceAll(" ", "%20"), options),
      }),
    },
    "presign-get": {
      "presigns the decoded key": () => ({
        presign: (presign) => (key, options) => presign(key.replaceAll("%20", " "), options),
      }),
    },
  },
};
