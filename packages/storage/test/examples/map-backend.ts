import { randomUUID } from "node:crypto";
import {
  checkKey,
  createBytesBody,
  createWriter,
  defineBackend,
  definedMembers,
  ensureCondition,
  listPage,
  type ObjectInfo,
  resolveRange,
  SluiceError,
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

/** What is stored with the bytes. */
export type ObjectType = Pick<ObjectInfo, "contentType" | "contentEncoding">;

/** Stores a copy of the bytes as a new version: a random id for each is enough of an etag. */
export function putObject(
  map: ObjectMap,
  key: string,
  bytes: Uint8Array,
  type: ObjectType = {},
): ObjectInfo {
  const info = { key, size: bytes.byteLength, etag: randomUUID(), ...type };
  map.entries.set(key, { info, bytes: bytes.slice() });
  return info;
}

export function createMapBackend(map: ObjectMap) {
  const find = (key: string, operation: string): Entry => {
    const entry = map.entries.get(key);
    if (!entry) throw new SluiceError("not_found", `${operation}: no such object`);
    return entry;
  };
  return defineBackend({
    name: "map",

    describe: (key, { operation }) => find(key, operation).info,

    open(key, { range: asked, ifMatch, signal, operation }) {
      const { info, bytes } = find(key, operation);
      ensureCondition(info, { ifMatch }, operation);
      const range = asked && resolveRange(asked, info.size, operation);
      // a copy: the reader owns its chunks
      const body = createBytesBody(bytes.slice(range?.start, range?.end), signal);
      return range ? { info, range, body } : { info, body };
    },

    list({ operation, ...options }) {
      return listPage(options, { operation, store: map.id }, ({ prefix, limit, after = "" }) => {
        // another program may have stored names that no call can open
        const keys = [...map.entries.keys()].filter((key) => !checkKey(key)).toSorted();
        const rest = keys.filter((key) => key.startsWith(prefix) && key > after);
        const found = rest.slice(0, limit);
        const next = found.length < rest.length ? found.at(-1) : undefined;
        return { objects: found.map((key) => find(key, operation).info), next };
      });
    },

    write(key, { size, contentType, signal, operation, ...conditions }) {
      const ensureCurrent = (): void =>
        ensureCondition(map.entries.get(key)?.info, conditions, operation);
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
          return putObject(map, key, Buffer.concat(chunks), definedMembers({ contentType }));
        },
        async release() {
          chunks = [];
        },
      };
      return createWriter(() => driver, { operation, size, signal });
    },

    remove: (key) => void map.entries.delete(key),
  });
}
