// #region serve
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";

/** Reads every blob below `reports/` of a container, page by page, and counts the bytes. */
export async function countBytes(connectionString: string, container: string): Promise<number> {
  const blobs = createAzureBlobBackend({ connectionString, container });
  let bytes = 0;
  let cursor: string | undefined;
  do {
    const page = await blobs.list({ prefix: "reports/", ...(cursor && { cursor }) });
    for (const { key } of page.objects) {
      const { body } = await blobs.open(key);
      for await (const chunk of body) bytes += chunk.byteLength;
    }
    ({ cursor } = page);
  } while (cursor !== undefined);
  await blobs.close?.();
  return bytes;
}
// #endregion

// #region credentials
/** Serves one folder with a credential of `@azure/identity`, such as `new DefaultAzureCredential()`. */
export function serveFolder(credential: ContainerClient["credential"]): StorageBackend {
  return createAzureBlobBackend({
    url: "https://contoso.blob.core.windows.net/documents",
    credential,
    prefix: "public",
  });
}
// #endregion

// #region presign
/** A link that works for five minutes and is saved under a name of ours. */
export async function linkTo(blobs: StorageBackend, key: string): Promise<string | undefined> {
  const link = await blobs.presign?.(key, {
    expiresInMs: 5 * 60_000,
    contentDisposition: 'attachment; filename="report.txt"',
  });
  return link?.url;
}
// #endregion

// #region write
/** Stores a text that appears whole or not at all, and only where no blob is yet. */
export async function store(container: ContainerClient, key: string, text: string): Promise<void> {
  const blobs = createAzureBlobBackend({ client: container, writable: true });
  const writer = await blobs.write?.(key, { ifAbsent: true, contentType: "text/plain" });
  await writer?.write(Buffer.from(text));
  await writer?.commit();
}
// #endregion

// #region watch
import type { EventQueue } from "@sluice/storage-azure-blob";

/** Tells about every change until the signal ends it; `queue` is a `QueueClient` of `@azure/storage-queue`. */
export async function follow(
  container: ContainerClient,
  queue: EventQueue,
  onChange: (key: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const blobs = createAzureBlobBackend({ client: container, events: queue });
  for await (const { changed = [], removed = [], reset } of blobs.watch?.({ signal }) ?? []) {
    if (reset) onChange("anything");
    for (const key of [...changed, ...removed]) onChange(key);
  }
}
// #endregion

import type { ContainerClient } from "@azure/storage-blob";
import type { StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { account, key as accountKey, sharedAzurite, startMs } from "./azurite.ts";
import { blobEvent, createMemoryQueue } from "./event-queue.ts";

test("the examples of the README work", { timeout: startMs }, async () => {
  const azurite = await sharedAzurite();
  const container = await azurite.createContainer();
  const { containerName } = container;
  await store(container, "reports/q1.txt", "12345");
  await store(container, "other.txt", "1");
  await expect(store(container, "other.txt", "2")).rejects.toMatchObject({
    code: "precondition_failed",
  });
  const connectionString = `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${accountKey};BlobEndpoint=${azurite.url};`;
  expect(await countBytes(connectionString, containerName)).toBe(5);

  const blobs = createAzureBlobBackend({ client: container });
  const response = await fetch((await linkTo(blobs, "reports/q1.txt"))!);
  expect(await response.text()).toBe("12345");
  expect(response.headers.get("content-disposition")).toContain("report.txt");

  const queue = createMemoryQueue();
  const caller = new AbortController();
  queue.put(blobEvent("BlobCreated", containerName, "reports/q1.txt"));
  await follow(
    container,
    queue,
    (key) => {
      expect(key).toBe("reports/q1.txt");
      caller.abort();
    },
    caller.signal,
  );

  expect(serveFolder({ getToken: async () => null })).toHaveProperty("presign");
  await container.delete();
});
