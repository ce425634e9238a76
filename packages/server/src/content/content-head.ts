import { SluiceError } from "@sluice/core";
import { definedMembers, joinChunks } from "@sluice/core/internal";
import type { CallOptions, ObjectInfo, OpenedObject, StorageBackend } from "@sluice/storage";
import { decodeHead } from "./content-coding.ts";
import { beginsAsText, headBytes, knownType, resourceType, storedAsText } from "./resource-type.ts";

/** Looks at the first bytes of objects, where their metadata do not tell what they are. */
export interface ContentHeads {
  /** Media type of an object, as it is sent with it: by its first 8 KiB where nothing else tells. */
  readonly typeOf: (info: ObjectInfo, options?: CallOptions) => Promise<string>;
  /** Whether the content of an object is text, by its first 8 KiB. */
  readonly isText: (info: ObjectInfo, options?: CallOptions) => Promise<boolean>;
}

/** Answers from metadata alone: for providers, where reading the first bytes would make the whole content. */
export const metadataHeads: ContentHeads = {
  isText: async (info) => storedAsText(info) ?? false,
  typeOf: async (info) => knownType(info) ?? resourceType(info, false),
};

/** Versions whose content is remembered, for each storage. */
const maxKnown = 4_096;

/** By storage: version and key to what the first bytes were. */
const knownVersions = new WeakMap<StorageBackend, Map<string, boolean>>();

/** Looks into `storage`, by the name that was asked for. A version is looked at once. */
export function contentHeads(storage: StorageBackend, key: string): ContentHeads {
  async function isText(info: ObjectInfo, options: CallOptions = {}): Promise<boolean> {
    const stored = storedAsText(info);
    if (stored !== undefined || info.size === 0) return stored ?? true;
    if (info.etag === undefined) return look(storage, key, { info, options });
    let versions = knownVersions.get(storage);
    if (!versions) knownVersions.set(storage, (versions = new Map()));
    const version = `${info.etag} ${info.key}`;
    const remembered = versions.get(version);
    if (remembered !== undefined) return remembered;
    const found = await look(storage, key, { info, options });
    if (versions.size >= maxKnown) versions.delete(versions.keys().next().value!);
    versions.set(version, found);
    return found;
  }
  return {
    isText,
    async typeOf(info, options) {
      return knownType(info) ?? resourceType(info, await isText(info, options));
    },
  };
}

async function look(
  storage: StorageBackend,
  key: string,
  looked: { info: ObjectInfo; options: CallOptions },
): Promise<boolean> {
  const bytes = await readHead(storage, key, looked);
  return bytes !== undefined && beginsAsText(looked.info, bytes);
}

/** The first 8 KiB of an object, decoded; `undefined` for a coding that is not known. */
export async function readHead(
  storage: Pick<StorageBackend, "open">,
  key: string,
  { info, options }: { info: ObjectInfo; options: CallOptions },
): Promise<Uint8Array | undefined> {
  const { etag, size } = info;
  const call = { ...options, ...definedMembers({ ifMatch: etag }) };
  const range = { start: 0, end: Math.min(headBytes, size ?? headBytes) };
  const opened = await storage.open(key, { ...call, range }).catch(async (error: unknown) => {
    if (isEmpty(error)) return undefined;
    // some storage reads whole objects only
    if (SluiceError.is(error) && error.code === "unsupported") return storage.open(key, call);
    throw error;
  });
  const head = opened ? await headOf(opened) : new Uint8Array();
  return decodeHead(head, info.contentEncoding, headBytes);
}

/** Of an object whose size was not known. */
function isEmpty(error: unknown): boolean {
  return SluiceError.is(error) && error.code === "range_not_satisfiable";
}

async function headOf(opened: OpenedObject): Promise<Uint8Array> {
  const { head, end } = await takeHead(opened.body);
  await end();
  return head;
}

/** The beginning of a body, and all of it. A reader that stops early calls `end`. */
export interface HeadedBytes {
  /** 8 KiB, or all there is. */
  readonly head: Uint8Array;
  readonly all: AsyncIterable<Uint8Array>;
  readonly end: () => Promise<void>;
}

/** Reads the first bytes of some content, and keeps them for the reader of all of it. */
export async function takeHead(bytes: AsyncIterable<Uint8Array>): Promise<HeadedBytes> {
  const source = bytes[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  let size = 0;
  let isOver = false;
  while (size < headBytes && !isOver) {
    const { done, value } = await source.next();
    isOver = done === true;
    if (done !== true) size += chunks.push(value) && value.byteLength;
  }
  async function end(): Promise<void> {
    await source.return?.();
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    try {
      yield* chunks.splice(0);
      for (;;) {
        const { done, value } = await source.next();
        if (done === true) return;
        yield value;
      }
    } finally {
      await end();
    }
  }
  const head = joinChunks(chunks, size).subarray(0, headBytes);
  return { head, all: all(), end };
}
