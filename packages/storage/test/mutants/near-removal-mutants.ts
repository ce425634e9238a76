import type { PromiseMutants } from "./promise-mutants.ts";

/** Backends that remove another object than the one that they are given, or none. */
export const nearRemovalMutants: PromiseMutants = {
  "Removes one object, and nothing whose key only begins with this one": [
    {
      rule: "remove-near",
      flaw: "removes objects below an object with it",
      breaks: ({ store }) => ({
        remove: (remove) => async (key, options) => {
          const isThere = await store.describe(key).catch(() => undefined);
          await remove(key, options);
          if (!isThere) return;
          const { objects } = await store.list({ prefix: `${key}/` });
          for (const below of objects) await store.remove(below.key);
        },
      }),
    },
    {
      rule: "remove-near",
      flaw: "removes with an object those whose keys continue with a dot",
      breaks: ({ store }) => ({
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          const { objects } = await store.list({ prefix: `${key}.` });
          for (const near of objects) await store.remove(near.key);
        },
      }),
    },
    {
      rule: "remove-near",
      flaw: "takes the signs * and ? in a key that it removes for patterns",
      breaks: ({ store }) => ({
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          if (!/[*?]/.test(key)) return;
          const glob = key.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/[*?]/g, "[^/]*");
          const { objects } = await store.list();
          for (const near of objects)
            if (new RegExp(`^${glob}$`).test(near.key)) await store.remove(near.key);
        },
      }),
    },
    {
      rule: "remove-near",
      flaw: "removes an object by another case",
      breaks: ({ store }) => ({
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          const { objects } = await store.list();
          for (const near of objects)
            if (near.key.toLowerCase() === key.toLowerCase()) await store.remove(near.key);
        },
      }),
    },
    {
      rule: "remove-near",
      flaw: "decodes a key that it removes",
      breaks: () => ({
        remove: (remove) => (key, options) => remove(key.replaceAll("%20", " "), options),
      }),
    },
    {
      rule: "remove-near",
      flaw: "takes an empty object for one that is not there",
      breaks: ({ store }) => ({
        remove: (remove) => async (key, options) => {
          const info = await store.describe(key).catch(() => undefined);
          if (info?.size !== 0) await remove(key, options);
        },
      }),
    },
  ],
};
