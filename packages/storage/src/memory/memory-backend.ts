import { SluiceError } from "@sluice/core";
import { createSha256, definedMembers, joinChunks } from "@sluice/core/internal";
import type {
  ObjectInfo,
  ObjectWriter,
  OpenedObject,
  OpenOptions,
  StepOptions,
  StepWriter,
  StorageBackend,
  WriteOptions,
} from "../contract/backend.ts";
import { ensureKey } from "../contract/key.ts";
import { createBody } from "../plugin/body.ts";
import { createChangeFeed } from "../plugin/change-feed.ts";
import { ensureCondition } from "../plugin/condition.ts";
import { defineBackend } from "../plugin/define-backend.ts";
import { resolveRange } from "../plugin/operation.ts";
import { type FoundPage, listPage, type ListRequest } from "../plugin/page.ts";
import { createStepWriter, type StepDriver } from "../plugin/step-writer.ts";
import { createWriter, type WriteDriver } from "../plugin/writer.ts";

const chunkBytes = 256 * 1024;

/** Content that is computed when it is read, so that its size costs no memory. */
export interface GeneratedContent {
  /** Bytes of the whole object. */
  readonly size: number;
  /** The bytes `[start, end)`; always the same ones for the same offsets. */
  read(start: number, end: number): Uint8Array;
}

/** What {@link MemoryBackend.put} stores: bytes (copied), text (as UTF-8), or a generator of bytes. */
export type MemoryContent = Uint8Array | string | GeneratedContent;

/** Facts kept besides the content. */
export type MemoryMeta = Pick<ObjectInfo, "contentType" | "contentEncoding" | "digests">;

/** A {@link StorageBackend} over a map, with the operation that fills it from code. */
export interface MemoryBackend extends StorageBackend {
  watch: NonNullable<StorageBackend["watch"]>;
  write: NonNullable<StorageBackend["write"]>;
  writeInSteps: NonNullable<StorageBackend["writeInSteps"]>;
  /** Takes effect before it returns. */
  remove: NonNullable<StorageBackend["remove"]>;
  close: NonNullable<StorageBackend["close"]>;
  /** Stores an object at once, replacing an earlier one. An illegal key throws `invalid_argument`. */
  put(key: string, content: MemoryContent, meta?: MemoryMeta): ObjectInfo;
}

interface Stored {
  readonly info: ObjectInfo & { readonly size: number; readonly etag: string };
  readonly content: GeneratedContent;
}

/**
 * Creates a backend that keeps its objects in memory: for tests, and for small content that a
 * server makes itself. It lists in the order of code units, 1000 objects a page; open bodies
 * keep the version they were opened with.
 */
export function createMemoryBackend(
  objects: Readonly<Record<string, MemoryContent>> = {},
): MemoryBackend {
  const store = new Map<string, Stored>();
  const feed = createChangeFeed("memory");
  const beginStep = createMemorySteps();
  // sets this instance's etags apart from those of an earlier one
  const instance = crypto.randomUUID().slice(0, 8);
  let revisions = 0;
  let sortedKeys: string[] | undefined;

  const put = (key: string, content: MemoryContent, meta: MemoryMeta = {}): ObjectInfo => {
    ensureKey(key, "memory: put");
    const metadata = toKnown(content);
    const info = {
      ...definedMembers({
        digests: metadata.sha256 === undefined ? undefined : { sha256: metadata.sha256 },
      }),
      ...meta,
      key,
      size: metadata.content.size,
      etag: `${instance}-${++revisions}`,
      lastModified: new Date(),
    };
    if (!store.has(key)) sortedKeys = undefined;
    store.set(key, { info, content: metadata.content });
    feed.publish(key, "changed");
    return info;
  };
  const find = (key: string, operation: string): Stored => {
    const stored = store.get(key);
    if (stored === undefined) throw new SluiceError("not_found", `${operation}: no such object`);
    return stored;
  };

  for (const [key, content] of Object.entries(objects)) put(key, content);

  const backend = defineBackend({
    name: "memory",

    describe: (key, { operation }) => find(key, operation).info,

    open: (key, call) => openContent(find(key, call.operation), call, call.operation),

    list: (call) =>
      listPage(call, { operation: call.operation, store: "" }, (request) => {
        sortedKeys ??= [...store.keys()].toSorted();
        return pageOf(sortedKeys, (key) => store.get(key)?.info, request);
      }),

    watch: (options) => feed.watch(options),

    write(key, call) {
      const ensureCurrent = (): void => ensureCondition(store.get(key)?.info, call, call.operation);
      ensureCurrent();
      return createMemoryWriter(call.operation, call, (bytes) => {
        ensureCurrent();
        return put(key, bytes, definedMembers({ contentType: call.contentType }));
      });
    },

    writeInSteps: (key, call) =>
      beginStep(key, { operation: call.operation, options: call }, (chunks, bytes, contentType) =>
        put(key, joinChunks(chunks, bytes), definedMembers({ contentType })),
      ),

    remove(key) {
      if (!store.delete(key)) return;
      sortedKeys = undefined;
      feed.publish(key, "removed");
    },

    close: () => feed.close(),
  });
  return { ...backend, put };
}

function toKnown(content: MemoryContent): { content: GeneratedContent; sha256?: string } {
  if (typeof content === "string") content = new TextEncoder().encode(content);
  if (!(content instanceof Uint8Array)) return { content };
  // copies in and copies out: neither side can change the other's bytes
  const bytes = content.slice();
  const hash = createSha256();
  hash.update(bytes);
  return {
    content: { size: bytes.byteLength, read: (start, end) => bytes.slice(start, end) },
    sha256: hash.digest(),
  };
}

function openContent(
  { info, content }: Stored,
  { range, ifMatch, signal }: OpenOptions,
  operation: string,
): OpenedObject {
  ensureCondition(info, { ifMatch }, operation);
  const resolved = range && resolveRange(range, info.size, operation);
  let position = resolved?.start ?? 0;
  const end = resolved?.end ?? info.size;
  const body = createBody({
    async next() {
      if (position >= end) return undefined;
      const start = position;
      position = Math.min(end, start + chunkBytes);
      return content.read(start, position);
    },
    signal,
  });
  return resolved === undefined ? { info, body } : { info, range: resolved, body };
}

function pageOf(
  sortedKeys: readonly string[],
  infoOf: (key: string) => ObjectInfo | undefined,
  { prefix, limit, after }: ListRequest,
): FoundPage {
  const objects: ObjectInfo[] = [];
  for (const key of sortedKeys) {
    if (!key.startsWith(prefix) || (after !== undefined && key <= after)) continue;
    const last = objects.at(-1);
    if (last !== undefined && objects.length >= limit) return { objects, next: last.key };
    const info = infoOf(key);
    if (info !== undefined) objects.push(info);
  }
  return { objects };
}

function createMemoryWriter(
  operation: string,
  { size, signal }: WriteOptions,
  publish: (bytes: Uint8Array) => ObjectInfo,
): ObjectWriter {
  let chunks: Uint8Array[] = [];
  const driver: WriteDriver = {
    async append(chunk) {
      chunks.push(chunk);
    },
    publish: async (written) => publish(joinChunks(chunks, written)),
    async release() {
      chunks = [];
    },
  };
  return createWriter(() => driver, { operation, size, signal });
}

interface KeptSteps {
  readonly key: string;
  readonly contentType: string | undefined;
  /** Each writer takes the place of the one before. */
  chunks: readonly Uint8Array[];
  bytes: number;
}

type PublishChunks = (
  chunks: readonly Uint8Array[],
  bytes: number,
  contentType: string | undefined,
) => ObjectInfo;

/** Creates the writers of one backend. Their bytes end with it. */
function createMemorySteps(): (
  key: string,
  step: { readonly operation: string; readonly options: StepOptions },
  publish: PublishChunks,
) => StepWriter {
  const unfinished = new Map<string, KeptSteps>();

  return (key, { operation, options }, publish) => {
    const id = options.id ?? crypto.randomUUID();
    if (!/^[0-9a-f-]{36}$/.test(id))
      throw new SluiceError("invalid_argument", `${operation}: the id is not one of this store`);
    if (options.id === undefined)
      unfinished.set(id, { key, contentType: options.contentType, chunks: [], bytes: 0 });
    const object = unfinished.get(id);
    if (object?.key !== key)
      throw new SluiceError("not_found", `${operation}: nothing of it is kept`);

    let { bytes } = object;
    const chunks = [...object.chunks];
    const ownBytes = bytes;
    const ensureUnchanged = (): void => {
      if (unfinished.get(id) !== object || object.bytes !== ownBytes)
        throw new SluiceError("precondition_failed", `${operation}: another writer resumed it`);
    };
    const driver: StepDriver = {
      async append(chunk) {
        chunks.push(chunk);
        bytes += chunk.byteLength;
      },
      async keep() {
        if (bytes === ownBytes) return { offset: ownBytes, rest: new Uint8Array() };
        ensureUnchanged();
        Object.assign(object, { chunks, bytes });
        return { offset: bytes, rest: new Uint8Array() };
      },
      async publish() {
        ensureUnchanged();
        unfinished.delete(id);
        return publish(chunks, bytes, object.contentType);
      },
      async discard() {
        unfinished.delete(id);
      },
      async release() {},
    };
    const { signal } = options;
    return createStepWriter(() => driver, { operation, id, offset: ownBytes, signal });
  };
}
