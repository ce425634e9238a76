// @module-tag slow
import { createHash } from "node:crypto";
import { formatKey, generateKey } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { wrapBackend } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { createS3Backend } from "@sluice/storage-s3";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  clientFor,
  countUncommitted,
  sharedAzurite,
  startMs,
} from "../../packages/storage-azure-blob/test/azurite.ts";
import { startS3StandIn } from "../../packages/storage-s3/test/stand-in/stand-in.ts";
import {
  alice,
  bearer,
  noise,
  startUploadServer,
} from "../../packages/uploads/test/upload-server.ts";

vi.setConfig({ testTimeout: startMs });

const MiB = 2 ** 20;
const keyText = formatKey(generateKey());

interface Service {
  readonly backend: StorageBackend;
  /** Objects in steps that the service keeps something of. */
  readonly countUnfinished: () => Promise<number>;
}

async function startS3(): Promise<Service> {
  const standIn = await startS3StandIn();
  const { bucket, endpoint, credentials } = standIn;
  const backend = createS3Backend({ bucket, endpoint, credentials, writable: true });
  onTestFinished(async () => {
    await backend.close?.();
    await standIn[Symbol.asyncDispose]();
  });
  return { backend, countUnfinished: async () => standIn.countUploads() };
}

async function startAzure(): Promise<Service> {
  const azurite = await sharedAzurite();
  const container = await azurite.createContainer();
  onTestFinished(() => void container.delete());
  return {
    backend: createAzureBlobBackend({ client: clientFor(container.url), writable: true }),
    countUnfinished: () => countUncommitted(container),
  };
}

/** Counts the bytes that go to a service and come back, and the listings. */
function counted(backend: StorageBackend, seen: { moved: number; listings: number }) {
  const take = (chunk: Uint8Array): void => void (seen.moved += chunk.byteLength);
  return wrapBackend(backend, {
    list: (list) => (options) => {
      seen.listings += 1;
      return list(options);
    },
    open: (open) => async (key, options) => {
      const opened = await open(key, options);
      seen.moved += opened.info.size ?? 0;
      return opened;
    },
    write: (write) => async (key, options) => {
      const writer = await write(key, options);
      return { ...writer, write: (chunk) => (take(chunk), writer.write(chunk)) };
    },
    writeInSteps: (writeInSteps) => async (key, options) => {
      const writer = await writeInSteps(key, options);
      return { ...writer, write: (chunk) => (take(chunk), writer.write(chunk)) };
    },
  });
}

describe.each([
  ["S3", startS3],
  ["Azure Blob Storage", startAzure],
] as const)("a resumable upload to %s", (_name, startService) => {
  test("moves a byte once and what did not fill a part again, and lists its prefix twice", async () => {
    const { backend, countUnfinished } = await startService();
    const seen = { moved: 0, listings: 0 };
    const server = await startUploadServer({
      uploads: { sweepIntervalMs: 3_600_000 },
      kind: () => counted(backend, seen),
    });
    const bytes = noise(21 * MiB);
    const { url, uploadId } = await server.slot();
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    await expect.poll(() => seen.listings).toBeGreaterThan(0);
    seen.listings = 0;
    const begun = await fetch(url, { method: "POST", headers });
    const location = begun.headers.get("location")!;
    for (let offset = 0; offset < bytes.length; offset += 7 * MiB) {
      const end = offset + 7 * MiB;
      const step = {
        ...bearer("alice"),
        "content-type": "application/partial-upload",
        "upload-offset": String(offset),
        "upload-complete": end === bytes.length ? "?1" : "?0",
      };
      const body = bytes.subarray(offset, end);
      const answer = await fetch(location, { method: "PATCH", headers: step, body });
      expect(answer.status).toBe(end === bytes.length ? 201 : 204);
    }
    expect(seen.listings).toBe(2);
    // 7 MiB of the first step and 6 of the second one fill no part: kept, read, and given to the next step
    expect(seen.moved).toBeLessThan((21 + 3 * (7 + 6)) * MiB + 20_000);
    expect(await countUnfinished()).toBe(0);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const claim = { name: "n", size: bytes.length, mimeType: "application/octet-stream", sha256 };
    const [file] = await server.uploads.confirm(alice, uploadId, [claim]);
    const { body } = await file!.open();
    expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
  });

  test("goes on in another process, and nothing of one that was never finished is left", async () => {
    const { backend, countUnfinished } = await startService();
    const kind = (): StorageBackend => backend;
    const sluice = { endpoint: "http://127.0.0.1:1/mcp", keys: keyText };
    const servers = [
      await startUploadServer({ kind, sluice }),
      await startUploadServer({ kind, sluice }),
    ];
    const at = (n: number, url: string): string =>
      url.replace("http://127.0.0.1:1/mcp", servers[n]!.url);
    const bytes = noise(10 * MiB);
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const body = bytes.subarray(0, 9 * MiB);
    const slots = [await servers[0]!.slot(), await servers[0]!.slot()];
    const begun = await Promise.all(
      slots.map(({ url }) => fetch(at(0, url), { method: "POST", headers, body })),
    );
    const [first] = begun.map((answer) => answer.headers.get("location")!);
    const head = await fetch(at(1, first!), { method: "HEAD", headers: bearer("alice") });
    expect(head.headers.get("upload-offset")).toBe(String(9 * MiB));
    const step = {
      ...bearer("alice"),
      "content-type": "application/partial-upload",
      "upload-offset": String(9 * MiB),
      "upload-complete": "?1",
    };
    const init = { method: "PATCH", headers: step, body: bytes.subarray(9 * MiB) };
    const last = await fetch(at(1, first!), init);
    expect(last.status).toBe(201);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    expect(await last.json()).toMatchObject({ size: bytes.length, sha256 });
    expect(await countUnfinished()).toBe(1);
    await servers[1]!.uploads.discard(slots[1]!.uploadId);
    expect(await countUnfinished()).toBe(0);
  });
});
