import { generateKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler } from "@sluice/transport-http";
import { createUploads, type Uploads } from "@sluice/uploads";
import { expect, test, vi } from "vitest";
import { bearer, noise, startUploadServer } from "./upload-server.ts";

const terms = { accept: [], maxBytes: 1_000, maxFiles: 1 };

test("uploads keep their writers and quotas in the stores of the Sluice", async () => {
  const stores = createMemoryStores();
  const settle = vi.spyOn(stores.uploads, "settle");
  const server = await startUploadServer({ sluice: { stores } });
  const { url } = await server.slot(terms);
  await fetch(url, { method: "PUT", headers: bearer("alice"), body: noise(10) });
  expect(settle).toHaveBeenCalled();
});

test("uploads in memory beside state that processes share are refused, with the harm and what to pass", () => {
  const memory = createMemoryStores();
  const state = { ...memory.state, shared: true };
  const sluice = createSluice({
    storage: createMemoryBackend(),
    keys: [generateKey()],
    stores: { ...memory, state },
  });
  const options = { storage: createMemoryBackend(), scan: "none" } as const;
  expect(() => createUploads(sluice, options)).toThrow(TypeError);
  expect(() => createUploads(sluice, options)).toThrow(
    /two writers.*stores: createRedisStores\(\{ redis \}\)/,
  );
  const shared = { uploads: { ...memory.uploads, shared: true } };
  expect(() => void createUploads(sluice, { ...options, stores: shared }).close()).not.toThrow();
});

test("an upload URL that nothing in the process serves is warned about once", async () => {
  const warnings: string[] = [];
  const sluice = createSluice({
    storage: createMemoryBackend(),
    endpoint: "http://127.0.0.1:1/mcp",
    keys: "ephemeral",
    anonymous: true,
    onWarning: (message) => void warnings.push(message),
  });
  warnings.length = 0;
  const open = (): Uploads =>
    createUploads(sluice, { storage: createMemoryBackend(), scan: "none" });
  const unserved = open();
  await unserved.reserve(undefined, terms);
  await unserved.reserve(undefined, terms);
  expect(warnings).toEqual([expect.stringContaining("pass uploads to createHandler")]);
  const served = open();
  createHandler({ sluice, uploads: served });
  await served.reserve(undefined, terms);
  expect(warnings).toHaveLength(1);
  await Promise.all([unserved.close(), served.close()]);
});
