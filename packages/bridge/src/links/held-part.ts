import { createSha256, type SluiceError } from "@sluice/core";
import type { ObjectWriter, ObjectInfo, StorageBackend } from "@sluice/storage";
import { createBody, withBody } from "@sluice/storage/plugin";
import type { SpoolPart } from "../spool/spooled-string.ts";
import { ownFault, type WritableStorage } from "./result-hold.ts";

/** What a hold does for its parts. */
interface PartHolder {
  readonly storage: WritableStorage;
  /** Counts bytes before they are written; rejects with `no_space`. */
  reserve(bytes: number): Promise<void>;
  /** Counts an open writer, until the function that it gives is called; throws `throttled`. */
  beginWriting(): () => void;
  removeObject(key: string): Promise<void>;
  readonly faultOf: (error: unknown) => unknown;
  /** Gives the URI under this name. */
  publish(name: string): string;
  /** Forgets the part and its bytes. */
  ended(bytes: number): void;
}

/** A write has this size, but for the last one: chunks of a network may be tiny. */
const writeBytes = 65_536;

/** A result on its way to a storage, which has it once it is sealed. */
export function createHeldPart(key: string, holder: PartHolder): SpoolPart {
  const { storage, faultOf } = holder;
  const hash = createSha256();
  /** Not written yet. Each write takes its buffer with it. */
  let buffer = new Uint8Array(writeBytes);
  let filledBytes = 0;
  let bytes = 0;
  let opening: Promise<ObjectWriter> | undefined;
  let endWriting: (() => void) | undefined;
  let committing: Promise<void> | undefined;
  let isWhole = false;
  let discarded: Promise<void> | undefined;

  async function ofStorage<T>(work: () => Promise<T>): Promise<T> {
    if (discarded) throw removed();
    try {
      return await work();
    } catch (error) {
      // a failure caused by its end is not a fault of the storage
      throw discarded ? removed() : faultOf(error);
    }
  }

  async function writer(): Promise<ObjectWriter> {
    endWriting ??= holder.beginWriting();
    return (opening ??= storage.write(key, { private: true }));
  }

  async function flush(): Promise<void> {
    if (filledBytes === 0) return;
    const full = buffer.subarray(0, filledBytes);
    buffer = new Uint8Array(writeBytes);
    filledBytes = 0;
    await (await writer()).write(full);
  }

  async function commitAll(): Promise<void> {
    await flush();
    await (await writer()).commit();
    isWhole = true;
    buffer = new Uint8Array();
    endWriting?.();
  }

  function commit(): Promise<void> {
    return (committing ??= commitAll());
  }

  async function remove(): Promise<void> {
    buffer = new Uint8Array();
    const open = await opening?.catch(() => undefined);
    // it waits for a commit, which may have made the object
    if (!isWhole) await open?.abort().catch(() => {});
    await committing?.catch(() => {});
    if (isWhole) await holder.removeObject(key);
    endWriting?.();
    holder.ended(bytes);
  }

  return {
    get bytes() {
      return bytes;
    },
    write: (chunk) =>
      ofStorage(async () => {
        await holder.reserve(chunk.length);
        bytes += chunk.length;
        hash.update(chunk);
        for (let at = 0; at < chunk.length;) {
          const part = chunk.subarray(at, at + writeBytes - filledBytes);
          buffer.set(part, filledBytes);
          filledBytes += part.length;
          at += part.length;
          if (filledBytes === writeBytes) await flush();
        }
      }),
    async *reread() {
      await ofStorage(commit);
      const { body } = await ofStorage(() => storage.open(key));
      try {
        yield* body;
      } catch (error) {
        throw faultOf(error);
      }
    },
    async seal() {
      await ofStorage(commit);
      return hash.digest();
    },
    publish: async (name) => ofStorage(async () => holder.publish(name)),
    discard: () => (discarded ??= remove()),
  };
}

function removed(): SluiceError {
  return ownFault("unavailable", "the result was removed");
}

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
