import type { ContainerClient } from "@azure/storage-blob";
import type { StorageBackend } from "@sluice/storage";
import type { Fixture } from "@sluice/storage/conformance";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { clientFor, countUncommitted, key as accountKey, sharedAzurite } from "./azurite.ts";
import { blobEvent, createMemoryQueue } from "./event-queue.ts";
import { startFaultProxy } from "./fault-proxy.ts";

const prefix = "root/";

/** A folder of a new container in Azurite, behind a proxy that can fail, for the conformance kit. */
export async function createFixture(): Promise<Fixture> {
  const azurite = await sharedAzurite();
  const container = await azurite.createContainer();
  let other: ContainerClient | undefined;
  const proxy = await startFaultProxy(container);
  const { containerName } = container;
  const behindProxy = container.url.replace(new URL(container.url).origin, proxy.url);
  const queue = createMemoryQueue();
  const open = (): StorageBackend =>
    createAzureBlobBackend({
      client: clientFor(behindProxy),
      prefix,
      writable: true,
      events: queue,
      pollIntervalMs: 5,
    });
  const backend = open();
  const blobOf = (key: string) => container.getBlockBlobClient(prefix + key);
  const put = async (key: string, content: Uint8Array, headers: object = {}): Promise<void> => {
    await blobOf(key).upload(content, content.byteLength, { blobHTTPHeaders: headers });
    queue.put(blobEvent("BlobCreated", containerName, prefix + key));
  };
  return {
    backend,
    traits: {
      refuses: (key) => /\.(?:\/|$)/.test(key),
      partBytes: 8 * 1024 * 1024,
    },
    why: {
      alias: "a key has one spelling",
      overwrite: "objects are replaced, never changed",
      overrun: "HTTP ends a body at its promised length",
    },
    async put(key, content) {
      if (!key.startsWith("burst/")) return put(key, content);
      // hundreds of them would be seconds of Azurite's time
      proxy.generated.set(prefix + key, { size: content.byteLength, tail: content });
      queue.put(blobEvent("BlobCreated", containerName, prefix + key));
    },
    async remove(key) {
      await blobOf(key).delete();
      queue.put(blobEvent("BlobDeleted", containerName, prefix + key));
    },
    putTyped: (key, content, { contentType, contentEncoding }) =>
      put(key, content, {
        ...(contentType && { blobContentType: contentType }),
        ...(contentEncoding && { blobContentEncoding: contentEncoding }),
      }),
    async putLarge(key, size, tail) {
      proxy.generated.set(prefix + key, { size, tail });
    },
    async touch(key) {
      await blobOf(key).setMetadata({ touched: crypto.randomUUID() });
    },
    async putFolder() {
      await blobOf("folder").upload("", 0, { metadata: { hdi_isfolder: "true" } });
      return "folder";
    },
    async putClutter() {
      await blobOf("b").upload("", 0, { metadata: { hdi_isfolder: "true" } });
      for (const key of ["b/", "x//y", "dot.", "folder./file"]) await blobOf(key).upload("", 0);
      await blobOf("uncommitted.bin").stageBlock(btoa("0"), "x", 1);
      await blobOf("a.txt").createSnapshot();
    },
    async putOutside() {
      await container.getBlockBlobClient("root-evil/x.txt").upload("canary", 6);
      await container.getBlockBlobClient("x.txt").upload("canary", 6);
      other = await azurite.createContainer();
      await other.getBlockBlobClient("x.txt").upload("canary", 6);
      return {
        sibling: ["../root-evil/x.txt", "-evil/x.txt"],
        escapes: [
          "../x.txt",
          `../../${other.containerName}/x.txt`,
          `../${other.containerName}/x.txt`,
          `%2e%2e/%2e%2e/${other.containerName}/x.txt`,
          "..%2Fx.txt",
          "/x.txt",
          "..\\x.txt",
          "%5c..%5cx.txt",
          `?restype=container&comp=list`,
        ],
      };
    },
    reopen: async () => open(),
    faults: {
      reset: (at) => proxy.next({ kind: "reset", at }),
      truncate: (at) => proxy.next({ kind: "truncate", at }),
      stall: (at) => proxy.next({ kind: "stall", at }),
      corrupt: (at) => proxy.next({ kind: "corrupt", at }),
      ignoreRange: () => proxy.next({ kind: "ignore-range" }),
      page: (page) => proxy.next({ kind: "page", ...page }),
      loseAnswer: () => proxy.next({ kind: "lost" }),
      validator: (named) => proxy.next({ kind: "validator", named }),
      throttle: (retryAfter) =>
        proxy.next({
          kind: "refuse",
          status: 503,
          code: "ServerBusy",
          headers: { "retry-after": retryAfter },
        }),
      fail: () => proxy.next({ kind: "refuse", status: 500, code: "InternalError" }),
      deny: (key) => void proxy.denied.add(prefix + key),
    },
    countHandles: () => proxy.countOpen(),
    countRequests: () => proxy.requests.length,
    countBytes: () => proxy.countBytes(),
    countLeftovers: () => countUncommitted(container),
    secrets: [accountKey, new URL(proxy.url).host, containerName],
    async dispose() {
      await backend.close?.();
      await proxy[Symbol.asyncDispose]();
      await container.delete();
      await other?.delete();
    },
  };
}
