import type { BlobItem } from "@azure/storage-blob";
import { definedMembers } from "@sluice/core/internal";
import type { ListOptions, ListPage, StorageBackend, WritableBackend } from "@sluice/storage";
import { listPage, readExtent, unlessMissing, UnlistedTally } from "@sluice/storage/plugin";
import { beginCall, type BlobRoot, callAzure, hasSegmentEndingInDot, toKey } from "./blob-call.ts";
import { type AzureContainer, createRoot } from "./container.ts";
import {
  type BlobFacts,
  ensureReadable,
  type SizedInfo,
  toObjectInfo,
  unreadableReason,
} from "./object-info.ts";
import { openBlob } from "./open-blob.ts";
import { urlSignerOf } from "./sign-url.ts";
import { writeBlobInSteps } from "./step-writer.ts";
import { type EventQueue, watchBlobs } from "./watch.ts";
import { writeBlob } from "./writer.ts";

/** Settings of {@link createAzureBlobBackend}: the container, which part of it is served, and how. */
export type AzureBlobBackendOptions = AzureContainer & {
  /** Serve only the blobs below this folder; keys are then relative to it. Default: the whole container. */
  readonly prefix?: string;
  /** Give the backend `write`, `writeInSteps` and `remove`. Default: false. */
  readonly writable?: boolean;
  /** Give the backend a `watch`, from the events in this queue. */
  readonly events?: EventQueue;
  /** Milliseconds between two looks into an empty queue. Default: 1000. */
  readonly pollIntervalMs?: number;
};

/**
 * Creates a backend over one container of Azure Blob Storage, or one folder of it. Nothing is asked
 * of the service before the first call.
 *
 * `presign` is there with a shared key and with a token credential; a SAS cannot sign another one.
 * Throws `invalid_argument` for an invalid container, connection string or prefix.
 */
export function createAzureBlobBackend(
  options: AzureBlobBackendOptions & { readonly writable: true },
): WritableBackend;
export function createAzureBlobBackend(options: AzureBlobBackendOptions): StorageBackend;
export function createAzureBlobBackend(options: AzureBlobBackendOptions): StorageBackend {
  if (typeof options !== "object")
    throw new TypeError(
      "createAzureBlobBackend: pass the url of a container, or a connectionString and the name of its container",
    );
  const { prefix, writable = false, events, pollIntervalMs = 1000 } = options;
  const root = createRoot(options, prefix);
  const signUrl = urlSignerOf(root);
  const watches = events && watchBlobs(root, events, pollIntervalMs);

  return {
    name: "azure-blob",

    async describe(key, { signal } = {}) {
      const { operation, blob } = beginCall(root, "describe", key, { signal });
      const facts = await callAzure({ operation, signal }, (abortSignal) =>
        blob.getProperties({ abortSignal }),
      );
      ensureReadable(facts, operation);
      const { contentLength, contentType, etag } = facts;
      const { size } = readExtent({ status: 200, contentLength, contentType, etag }, { operation });
      return toObjectInfo(key, size, facts, facts.contentMD5);
    },

    open: (key, openOptions = {}) => openBlob(root, key, openOptions),

    list: (listOptions = {}) => listBlobs(root, listOptions),

    ...(signUrl && {
      presign: signUrl,
      presignOrigins: async () => [new URL(root.container.url).origin],
    }),

    ...(watches && { watch: (watchOptions) => watches.watch(watchOptions) }),

    ...(writable && {
      write: (key, writeOptions = {}) => writeBlob(root, key, writeOptions),
      writeInSteps: (key, stepOptions = {}) => writeBlobInSteps(root, key, stepOptions),

      async remove(key, { signal } = {}) {
        const { operation, blob } = beginCall(root, "remove", key, { signal });
        // Azure refuses to delete a blob that has snapshots unless they go with it
        const removal = callAzure({ operation, signal }, (abortSignal) =>
          blob.delete({ abortSignal, deleteSnapshots: "include" }),
        );
        await unlessMissing(removal);
      },
    }),

    async close() {
      watches?.close();
      root.connections?.close();
    },
  } satisfies StorageBackend;
}

const listOperation = "azure-blob: list";
/** Largest page of the service. */
const maxObjects = 5000;

/**
 * One page of the service. Folders and archived blobs are left out, and the service sends empty pages, so a page with a
 * cursor may have few objects or none.
 */
function listBlobs(root: BlobRoot, options: ListOptions): Promise<ListPage> {
  const { container } = root;
  const store = `${container.containerName}/${root.prefix}`;
  return listPage(
    options,
    { operation: listOperation, store, maxObjects },
    async ({ prefix, limit, after }) => {
      const { signal } = options;
      const page = await callAzure({ operation: listOperation, signal }, async (abortSignal) => {
        const pages = container
          // with metadata, because that marks folders; snapshots, versions and uncommitted blobs are listed only on
          // request
          .listBlobsFlat({ prefix: root.prefix + prefix, includeMetadata: true, abortSignal })
          .byPage({ maxPageSize: limit, ...definedMembers({ continuationToken: after }) });
        return (await pages.next()).value;
      });
      const unlisted = new UnlistedTally();
      const objects = page.segment.blobItems
        .map((item: BlobItem) => toListed(root, item, unlisted))
        .filter((info: SizedInfo | undefined) => info !== undefined);
      const next = page.continuationToken || undefined;
      return { objects, next, ...definedMembers({ unlisted: unlisted.take() }) };
    },
  );
}

/** The metadata of a listed blob, or `undefined` when it could not be opened, which is counted. */
function toListed(root: BlobRoot, item: BlobItem, unlisted: UnlistedTally): SizedInfo | undefined {
  const { name, properties, metadata } = item;
  const key = toKey(root, name);
  const facts: BlobFacts = { ...properties, metadata };
  if (key === undefined) {
    const rest = name.slice(root.prefix.length);
    if (hasSegmentEndingInDot(rest)) unlisted.add("reserved");
    else unlisted.addName(rest);
    return undefined;
  }
  if (unreadableReason(facts) !== undefined) {
    if (facts.accessTier === "Archive") unlisted.add("archived");
    return undefined;
  }
  return toObjectInfo(key, properties.contentLength ?? 0, facts, properties.contentMD5);
}
