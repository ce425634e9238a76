import { randomUUID } from "node:crypto";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo, StorageBackend } from "@sluice/storage";
import {
  beginOperation,
  createBytesBody,
  createWriter,
  ensureCondition,
  listPage,
  resolveRange,
  type WriteDriver,
} from "@sluice/storage/plugin";

interface Entry {
  readonly info: ObjectInfo & { readonly size: number };
  readonly bytes: Uint8Array;
}

/** Objects in a map. The `id` is made with the map: it sets its cursors apart from those of another one. */
export interface ObjectMap {
  readonly id: string;
  readonly entries: Map<string, Entry>;
}

export function createObjectMap(): ObjectMap {
  return { id: randomUUID(), entries: new Map() };
}

/** Stores a copy of the bytes as a new version. */
export function putObject(map: ObjectMap, key: string, bytes: Uint8Array): ObjectInfo {
  const info = { key, size: bytes.byteLength, etag: randomUUID() };
  map.entries.set(key, { info, bytes: bytes.slice() });
  return info;
}

// #region backend
export function createMapBackend(map: ObjectMap) {
  const find = (key: string, operation: string): Entry => {
    const entry = map.entries.get(key);
    if (!entry) throw new SluiceError("not_found", `${operation}: no such object`);
    return entry;
  };
  return {
    name: "map",

    async describe(key, options) {
      return find(key, beginOperation("map: describe", key, options)).info;
    },

    async open(key, options = {}) {
      const operation = beginOperation("map: open", key, options);
      const { info, bytes } = find(key, operation);
      ensureCondition(info, { ifMatch: options.ifMatch }, operation);
      const range = options.range && resolveRange(options.range, info.size, operation);
      // a copy: the reader owns its chunks
      const body = createBytesBody(bytes.slice(range?.start, range?.end), options.signal);
      return range ? { info, range, body } : { info, body };
    },

    async list(options = {}) {
      const page = { operation: "map: list", store: map.id };
      return listPage(options, page, ({ prefix, limit, after = "" }) => {
        const keys = [...map.entries.keys()].toSorted();
        const rest = keys.filter((key) => key.startsWith(prefix) && key > after);
        const found = rest.slice(0, limit);
        const next = found.length < rest.length ? found.at(-1) : undefined;
        return { objects: found.map((key) => find(key, page.operation).info), next };
      });
    },

    async write(key, options = {}) {
      const operation = beginOperation("map: write", key, options);
      const ensureCurrent = (): void =>
        ensureCondition(map.entries.get(key)?.info, options, operation);
      // early, before any byte is sent
      ensureCurrent();
      let chunks: Uint8Array[] = [];
      const driver: WriteDriver = {
        async append(chunk) {
          chunks.push(chunk);
        },
        async publish() {
          // again, in one step with the publication: another writer may have been faster
          ensureCurrent();
          return putObject(map, key, Buffer.concat(chunks));
        },
        async release() {
          chunks = [];
        },
      };
      const { size, signal } = options;
      return createWriter(() => driver, { operation, size, signal });
    },

    async remove(key, options) {
      beginOperation("map: remove", key, options);
      map.entries.delete(key);
    },
  } satisfies StorageBackend;
}
// #endregion
