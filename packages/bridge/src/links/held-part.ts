import type { SluiceError } from "@sluice/core";
import { createSha256 } from "@sluice/core/internal";
import type { ObjectWriter, ObjectInfo, StorageBackend } from "@sluice/storage";
import { createBody, withBody } from "@sluice/storage/plugin";
import type { SpoolPart } from "../spool/spooled-string.ts";
import { ownFault, type WritableStorage } from "./result-hold.ts";

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
export class HeldPart implements SpoolPart {
  readonly #key: string;
  readonly #holder: PartHolder;
  readonly #hash = createSha256();
  /** Not written yet. Each write takes its buffer with it. */
  #buffer = new Uint8Array(writeBytes);
  #filledBytes = 0;
  #bytes = 0;
  #opening: Promise<ObjectWriter> | undefined;
  #endWriting: (() => void) | undefined;
  #committing: Promise<void> | undefined;
  #isWhole = false;
  #discarded: Promise<void> | undefined;

  readonly #commit = (): Promise<void> => {
    return (this.#committing ??= this.#commitAll());
  };

  constructor(key: string, holder: PartHolder) {
    this.#key = key;
    this.#holder = holder;
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(chunk: Uint8Array): Promise<void> {
    return this.#ofStorage(async () => {
      await this.#holder.reserve(chunk.length);
      this.#bytes += chunk.length;
      this.#hash.update(chunk);
      for (let at = 0; at < chunk.length;) {
        const part = chunk.subarray(at, at + writeBytes - this.#filledBytes);
        this.#buffer.set(part, this.#filledBytes);
        this.#filledBytes += part.length;
        at += part.length;
        if (this.#filledBytes === writeBytes) await this.#flush();
      }
    });
  }

  async *reread(): AsyncIterable<Uint8Array> {
    await this.#ofStorage(this.#commit);
    const { body } = await this.#ofStorage(() => this.#holder.storage.open(this.#key));
    try {
      yield* body;
    } catch (error) {
      throw this.#holder.faultOf(error);
    }
  }

  async seal(): Promise<string> {
    await this.#ofStorage(this.#commit);
    return this.#hash.digest();
  }

  async publish(name: string): Promise<string> {
    return this.#ofStorage(async () => this.#holder.publish(name));
  }

  discard(): Promise<void> {
    return (this.#discarded ??= this.#remove());
  }

  async #ofStorage<T>(work: () => Promise<T>): Promise<T> {
    if (this.#discarded) throw removed();
    try {
      return await work();
    } catch (error) {
      // a failure caused by its end is not a fault of the storage
      throw this.#discarded ? removed() : this.#holder.faultOf(error);
    }
  }

  async #writer(): Promise<ObjectWriter> {
    this.#endWriting ??= this.#holder.beginWriting();
    return (this.#opening ??= this.#holder.storage.write(this.#key, { private: true }));
  }

  async #flush(): Promise<void> {
    if (this.#filledBytes === 0) return;
    const full = this.#buffer.subarray(0, this.#filledBytes);
    this.#buffer = new Uint8Array(writeBytes);
    this.#filledBytes = 0;
    await (await this.#writer()).write(full);
  }

  async #commitAll(): Promise<void> {
    await this.#flush();
    await (await this.#writer()).commit();
    this.#isWhole = true;
    this.#buffer = new Uint8Array();
    this.#endWriting?.();
  }

  async #remove(): Promise<void> {
    this.#buffer = new Uint8Array();
    const open = await this.#opening?.catch(() => undefined);
    // it waits for a commit, which may have made the object
    if (!this.#isWhole) await open?.abort().catch(() => {});
    await this.#committing?.catch(() => {});
    if (this.#isWhole) await this.#holder.removeObject(this.#key);
    this.#endWriting?.();
    this.#holder.ended(this.#bytes);
  }
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
export function heldView(storage: StorageBackend, readers: HeldReaders): StorageBackend {
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
