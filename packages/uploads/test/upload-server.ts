import { randomFillSync } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Principal } from "@sluice/core";
import { createSluice, type AuditRecord, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend, type StorageBackend, type WritableBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { type SluiceHandler } from "@sluice/transport-http";
import { withSluice } from "@sluice/transport-http/internal";
import { hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import {
  createUploads,
  type Slot,
  type SlotTerms,
  type Uploads,
  type UploadsOptions,
} from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { onTestFinished } from "vitest";
import { withParts } from "./part-storage.ts";

export const alice = {
  issuer: "https://id.example",
  subject: "alice",
  clientId: "c",
} satisfies Principal;
export const bob = { ...alice, subject: "bob" } satisfies Principal;

/** An upload endpoint over a folder. */
export interface UploadServer {
  readonly url: string;
  readonly server: Server;
  readonly handler: SluiceHandler;
  readonly sluice: Sluice;
  readonly uploads: Uploads;
  readonly records: AuditRecord[];
  readonly errors: unknown[];
  /** Paths of all files on disk, also of temporary ones. */
  readonly files: () => Promise<string[]>;
  /** A slot of Alice's. */
  readonly slot: (terms?: Partial<SlotTerms>) => Promise<Slot>;
}

/** What a test may set. */
export interface UploadServerOptions {
  readonly uploads?: Partial<UploadsOptions>;
  readonly sluice?: Partial<SluiceOptions>;
  readonly wrap?: (backend: StorageBackend) => StorageBackend;
  /** What stands between the endpoint and the storage that {@link wrap} gives. */
  readonly kind?: (backend: StorageBackend) => StorageBackend;
  /** Folder that several servers have; the test that made it removes it. */
  readonly root?: string;
}

/** A request with `Bearer <name>` is that user's. */
export function bearer(name: string): { readonly authorization: string } {
  return { authorization: `Bearer ${name}` };
}

/** Starts one; it is closed when the test is over. */
export async function startUploadServer(options: UploadServerOptions = {}): Promise<UploadServer> {
  const root = options.root ?? (await mkdtemp(join(tmpdir(), "sluice-uploads-")));
  let listener: ReturnType<typeof toNodeHandler> | undefined;
  const server = hardenServer(createServer((req, res) => listener?.(req, res)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const records: AuditRecord[] = [];
  const errors: unknown[] = [];
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint: url,
    keys: "ephemeral",
    principal: ({ header }) => {
      const name = /^Bearer (\w+)$/.exec(header("authorization") ?? "")?.[1];
      return name === undefined ? undefined : { ...alice, subject: name };
    },
    audit: (record) => void records.push(record),
    onError: (error) => void errors.push(error),
    onWarning: () => {},
    ...options.sluice,
  } as SluiceOptions);
  const backend = createFsBackend({ root, writable: true });
  const storage = options.wrap?.(backend) ?? backend;
  const uploads = createUploads(sluice, {
    // what a test wraps is still written to
    storage: (options.kind?.(storage) ?? storage) as WritableBackend,
    scan: "none",
    ...options.uploads,
  });
  const handler = withUploads(
    withSluice({ fetch: async () => new Response("rpc") }, sluice),
    uploads,
  );
  listener = toNodeHandler(handler, { onError: (error) => void errors.push(error) });
  onTestFinished(async () => {
    await uploads.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await backend.close?.();
    if (options.root === undefined) await rm(root, { recursive: true });
  });
  return {
    url,
    server,
    handler,
    sluice,
    uploads,
    records,
    errors,
    async files() {
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => join(parentPath, name));
    },
    slot: (terms = {}) =>
      uploads.reserve(alice, { accept: [], maxBytes: 50_000_000, maxFiles: 1, ...terms }),
  };
}

/** Bytes that no compression shortens and no type is found in. */
export function noise(size: number): Buffer<ArrayBuffer> {
  const bytes = randomFillSync(Buffer.alloc(size));
  bytes.set([1, 2].slice(0, size));
  return bytes;
}

/** The beginning of a PNG, as far as it is looked at, and at least `size` bytes in all. */
export function png(size: number): Buffer<ArrayBuffer> {
  const head = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154";
  const bytes = noise(Math.max(size, head.length / 2));
  bytes.write(head, "hex");
  return bytes;
}

/** A backend that writes nothing in steps. */
function withoutSteps(backend: StorageBackend): StorageBackend {
  const less = { ...backend };
  delete less.writeInSteps;
  return less;
}

/** Kinds of storage, as files in steps see them. */
export const storageKinds: readonly StorageKind[] = (
  [
    ["a folder", true, 3, (backend) => backend],
    ["a service that takes parts", true, 2, withParts],
    ["a storage without steps", false, 2, withoutSteps],
  ] satisfies [string, boolean, number, Adapt][]
).map(([kind, isInSteps, begunObjects, adapt]) => ({
  kind,
  isInSteps,
  begunObjects,
  adapt,
  start: (options = {}) => startUploadServer({ ...options, kind: adapt }),
}));

type Adapt = (backend: StorageBackend) => StorageBackend;

/** A kind of storage. */
export interface StorageKind {
  readonly kind: string;
  /** It has `writeInSteps`. */
  readonly isInSteps: boolean;
  /** Files on disk of a file that was begun. */
  readonly begunObjects: number;
  readonly adapt: Adapt;
  /** Starts a server over it. */
  readonly start: (options?: UploadServerOptions) => Promise<UploadServer>;
}
