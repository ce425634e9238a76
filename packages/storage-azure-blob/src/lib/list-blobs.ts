import type { BlobItem } from "@azure/storage-blob";
import { definedMembers } from "@sluice/core/internal";
import type { ListOptions, ListPage } from "@sluice/storage";
import { listPage } from "@sluice/storage/plugin";
import { type BlobRoot, toKey } from "./container.ts";
import { type BlobFacts, type SizedInfo, toObjectInfo, unreadable } from "./object-info.ts";
import { request } from "./request.ts";

const operation = "azure-blob: list";
/** Largest page of the service. */
const maxObjects = 5000;

/**
 * One page of the service. It may have fewer objects than the service counts, or none, and still a
 * cursor: folders and archived blobs are left out, and the service itself gives empty pages.
 */
export function listBlobs(root: BlobRoot, options: ListOptions): Promise<ListPage> {
  const { container } = root;
  const store = `${container.containerName}/${root.prefix}`;
  return listPage(options, { operation, store, maxObjects }, async ({ prefix, limit, after }) => {
    const { signal } = options;
    const page = await request({ operation, signal }, async (abortSignal) => {
      const pages = container
        // the marks of folders are metadata; snapshots, versions and uncommitted blobs only come when asked for
        .listBlobsFlat({ prefix: root.prefix + prefix, includeMetadata: true, abortSignal })
        .byPage({ maxPageSize: limit, ...definedMembers({ continuationToken: after }) });
      return (await pages.next()).value;
    });
    const objects = page.segment.blobItems
      .map((item: BlobItem) => toListed(root, item))
      .filter((info: SizedInfo | undefined) => info !== undefined);
    return { objects, next: page.continuationToken || undefined };
  });
}

/** The metadata of a listed blob, or `undefined` when it could not be opened. */
function toListed(root: BlobRoot, item: BlobItem): SizedInfo | undefined {
  const { name, properties, metadata } = item;
  const key = toKey(root, name);
  const facts: BlobFacts = { ...properties, metadata };
  if (key === undefined || unreadable(facts) !== undefined) return undefined;
  return toObjectInfo(key, properties.contentLength ?? 0, facts, properties.contentMD5);
}
