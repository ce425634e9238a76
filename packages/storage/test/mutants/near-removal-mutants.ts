import type { PromiseMutants } from "./promise-mutants.ts";

/** Backends that remove another object than the one that they are given, or none. */
export const nearRemovalMutants: PromiseMutants = {
  "Removes one object, and nothing whose key only begins with this one": {
    "remove-near": {
      "removes objects below an object with it": ({ store }) => ({
        remove: (remove) => async (key, options) => {
          const isThere = await store.describe(key).catch(() => undefined);
          await remove(key, options);
          if (!isThere) return;
          const { objects } = await store.list({ prefix: `${key}/` });
          for (const below of objects) await store.remove(below.key);
        },
      }),
      "removes with an object those whose keys continue with a dot": ({ store }) => ({
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          const { objects } = await store.list({ prefix: `${key}.` });
          for (const near of objects) await store.remove(near.key);
        },
      }),
      "takes the signs * and ? in a key that it removes for patterns": ({ store }) => ({
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          if (!/[*?]/.test(key)) return;
          const glob = key.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/[*?]/g, "[^/]*");
          const { objects } = await store.list();
          for (const near of objects)
            if (new RegExp(`^${glob}$`).test(near.key)) await store.remove(near.key);
        },
      }),
      "removes an object by another case": ({ store }) => ({
        remove: (remove) => async (key, options) => {
          await remove(key, options);
          const { objects } = await store.list();
          for (const near of objects)
            if (near.key.toLowerCase() === key.toLowerCase()) await store.remove(near.key);
        },
      }),
      "decodes a key that it removes": () => ({
        remove: (remove) => (key, options) => remove(key.replaceAll("%20", " "), options),
      }),
      "takes an empty object for one that is not there": ({ store }) => ({
        remove: (remove) => async (key, options) => {
          const info = await store.describe(key).catch(() => undefined);
          if (info?.size !== 0) await remove(key, options);
        },
      }),
    },
  },
};
