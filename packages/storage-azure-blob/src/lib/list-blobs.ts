import type { BlobItem } from "@azure/storage-blob";
import { definedMembers } from "@sluice/core";
import type { ListOptions, ListPage } from "@sluice/storage";
import { formatCursor, parseCursor, resolveLimit } from "@sluice/storage/plugin";
import { type BlobRoot, toKey } from "./container.ts";
import { type BlobFacts, type SizedInfo, toObjectInfo, unreadable } from "./object-info.ts";
import { request } from "./request.ts";

const operation = "azure-blob: list";
const pageLimit = 1000;
/** Largest page of the service. */
const mostPerPage = 5000;

/**
 * One page of the service. It may have fewer objects than the service counts, or none, and still a
 * cursor: folders and archived blobs are left out, and the service itself gives empty pages.
 */
export async function listBlobs(
  root: BlobRoot,
  { prefix = "", cursor, limit, signal }: ListOptions,
): Promise<ListPage> {
  signal?.throwIfAborted();
  const maxPageSize = limit === undefined ? pageLimit : resolveLimit(limit, mostPerPage, operation);
  const scope = `${root.container.containerName}/${root.prefix}${prefix}`;
  const marker = cursor === undefined ? undefined : parseCursor(cursor, operation, scope);
  const page = await request({ operation, signal }, async (abortSignal) => {
    const pages = root.container
      // the marks of folders are metadata; snapshots, versions and uncommitted blobs only come when asked for
      .listBlobsFlat({ prefix: root.prefix + prefix, includeMetadata: true, abortSignal })
      .byPage({
        maxPageSize,
        ...definedMembers({ continuationToken: marker }),
      });
    return (await pages.next()).value;
  });
  const objects = page.segment.blobItems
    .map((item: BlobItem) => toListed(root, item))
    .filter((info: SizedInfo | undefined) => info !== undefined);
  const next = page.continuationToken;
  return next ? { objects, cursor: formatCursor(next, scope) } : { objects };
}

/** The metadata of a listed blob, or `undefined` when it could not be opened. */
function toListed(root: BlobRoot, item: BlobItem): SizedInfo | undefined {
  const { name, properties, metadata } = item;
  const key = toKey(root, name);
  const facts: BlobFacts = { ...properties, metadata };
  if (key === undefined || unreadable(facts) !== undefined) return undefined;
  return toObjectInfo(key, properties.contentLength ?? 0, facts, properties.contentMD5);
}
