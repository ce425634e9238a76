import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StorageBackend } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { createFsBackend } from "@sluice/storage-fs";
import { createGraphBackend } from "@sluice/storage-graph";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { createS3Backend } from "@sluice/storage-s3";
import { clientFor, key, sharedAzurite } from "../../packages/storage-azure-blob/test/azurite.ts";
import { startS3StandIn } from "../../packages/storage-s3/test/stand-in/stand-in.ts";
import { createMeddler, type Meddler } from "./meddler.ts";
import { createSigningStore } from "./signing-store.ts";

/** A storage service on origins of its own, each behind a meddler, and a backend over it. */
export interface Service extends AsyncDisposable {
  readonly backend: StorageBackend;
  /** Where the bytes are: what redirects lead to. */
  readonly store: Meddler;
  /** Where the backend asks about objects. The same as `store` where the service has one origin. */
  readonly api: Meddler;
  /** Another backend over the same service. */
  open(): StorageBackend;
  put(name: string, content: Uint8Array): Promise<void>;
  /** Secrets that no log, error or answer may hold. */
  readonly secrets: readonly string[];
}

export const services = {
  fs: startFs,
  s3: startS3,
  "azure-blob": startAzureBlob,
  graph: startGraph,
} as const;

export type ServiceName = keyof typeof services;
export const serviceNames = Object.keys(services) as ServiceName[];

/** Services that the server itself reads over a network. */
export const remoteNames: readonly ServiceName[] = serviceNames.filter((name) => name !== "fs");

/** A folder, and a store that signs URLs to it. */
async function startFs(): Promise<Service> {
  const root = await mkdtemp(join(tmpdir(), "sluice-service-"));
  const files = createFsBackend({ root, racyMs: 0 });
  let store: Meddler | undefined;
  const signing = await createSigningStore(files, {
    front: async (target) => (store = await createMeddler(target)),
  });
  return {
    backend: signing.backend,
    store: store!,
    api: store!,
    open: () => signing.backend,
    async put(name, content) {
      const fresh = join(root, `.${name}`);
      await writeFile(fresh, content);
      await rename(fresh, join(root, name));
    },
    secrets: [],
    async [Symbol.asyncDispose]() {
      await signing.close();
      await files.close?.();
      await rm(root, { recursive: true, force: true });
    },
  };
}

async function startS3(): Promise<Service> {
  const s3 = await startS3StandIn();
  const front = await createMeddler(() => Number(new URL(s3.endpoint).port));
  const { bucket, credentials } = s3;
  const open = (): StorageBackend =>
    createS3Backend({ bucket, prefix: "files", endpoint: front.origin, credentials });
  return withBackend(open, {
    store: front,
    api: front,
    async put(name, content) {
      s3.put(`files/${name}`, content);
    },
    secrets: [credentials.secretAccessKey],
    async close() {
      await front.close();
      await s3[Symbol.asyncDispose]();
    },
  });
}

async function startAzureBlob(): Promise<Service> {
  const azurite = await sharedAzurite();
  const front = await createMeddler(() => Number(new URL(azurite.url).port));
  const container = await azurite.createContainer();
  const url = container.url.replace(new URL(container.url).origin, front.origin);
  const open = (): StorageBackend =>
    createAzureBlobBackend({ client: clientFor(url), prefix: "files" });
  return withBackend(open, {
    store: front,
    api: front,
    async put(name, content) {
      await container.getBlockBlobClient(`files/${name}`).upload(content, content.byteLength);
    },
    secrets: [key],
    async close() {
      await front.close();
      await container.delete();
    },
  });
}

async function startGraph(): Promise<Service> {
  const { origins, drive, credential, ...graph } = await startGraphEmulator();
  const store = await createMeddler(() => Number(new URL(origins.download).port));
  const api = await createMeddler(
    () => Number(new URL(origins.graph).port),
    ({ headers }) => {
      // downloads, too, lead through a meddler
      headers.location &&= headers.location.replace(origins.download, store.origin);
    },
  );
  const open = (): StorageBackend =>
    createGraphBackend({
      credential,
      driveId: drive.id,
      root: { path: "files" },
      baseUrl: api.origin,
    });
  return withBackend(open, {
    store,
    api,
    async put(name, content) {
      drive.put(`files/${name}`, content);
    },
    secrets: [],
    async close() {
      await api.close();
      await store.close();
      await graph[Symbol.asyncDispose]();
    },
  });
}

function withBackend(
  open: () => StorageBackend,
  {
    close,
    ...service
  }: Omit<Service, "backend" | "open" | typeof Symbol.asyncDispose> & {
    readonly close: () => Promise<void>;
  },
): Service {
  const backend = open();
  return {
    ...service,
    open,
    backend,
    async [Symbol.asyncDispose]() {
      await backend.close?.();
      await close();
    },
  };
}
