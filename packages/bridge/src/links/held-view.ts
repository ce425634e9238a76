import type { ObjectInfo, StorageBackend } from "@sluice/storage";
import { createBody, withBody } from "@sluice/storage/plugin";

/** Folder of a storage in which all results lie. */
export const heldFolder = "held/";

/** The readers of held results. */
export interface HeldReaders {
  /** A reader opens the result of this id. */
  open(id: string): void;
  /** Its body is read, until the function that this gives is called. */
  read(id: string): () => void;
}

/**
 * Held results of a storage, to be read. A key is the id of a result and, behind it, the file name that readers get:
 * the name is known when the bytes are written already, so the object itself has none.
 */
export function createHeldView(storage: StorageBackend, readers: HeldReaders): StorageBackend {
  return {
    name: storage.name,
    async describe(key, options) {
      return named(key, await storage.describe(storedKey(key), options));
    },
    async open(key, options) {
      const opened = await storage.open(storedKey(key), options);
      const { range, file, bytes } = opened;
      const id = idOf(storedKey(key));
      readers.open(id);
      const terms = { info: named(key, opened.info), range, file, bytes };
      return withBody(terms, () => {
        const end = readers.read(id);
        const reader = opened.body.getReader();
        return createBody({
          next: async () => (await reader.read()).value,
          async release(reason) {
            await reader.cancel(reason).catch(() => {});
            end();
          },
        });
      });
    },
    async list(options = {}) {
      const prefix = `${heldFolder}${options.prefix ?? ""}`;
      const { objects, ...page } = await storage.list({ ...options, prefix });
      return { ...page, objects: objects.map((info) => ({ ...info, key: idOf(info.key) })) };
    },
  };
}

const labelled = /^(\d{13,16}-[0-9a-f]{32})\/[^/]+$/;

/** Key of the object behind a key of the view. */
function storedKey(key: string): string {
  return heldFolder + (labelled.exec(key)?.[1] ?? key);
}

function named(key: string, info: ObjectInfo): ObjectInfo {
  return { ...info, key: labelled.test(key) ? key : idOf(info.key) };
}

function idOf(stored: string): string {
  return stored.slice(heldFolder.length);
}
