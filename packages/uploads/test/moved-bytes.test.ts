import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatKey, generateKey } from "@sluice/core";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, onTestFinished, test } from "vitest";
import { countUnfinished } from "./part-storage.ts";
import {
  alice,
  bearer,
  noise,
  startUploadServer,
  storageKinds,
  type StorageKind,
  type UploadServer,
} from "./upload-server.ts";

const partBytes = 64 * 1024;
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Counts the bytes that go into a backend and come out of it. */
function counted(backend: StorageBackend, moved: { bytes: number }): StorageBackend {
  const take = (chunk: Uint8Array): void => void (moved.bytes += chunk.byteLength);
  return wrapBackend(backend, {
    write: (write) => async (key, options) => {
      const writer = await write(key, options);
      return { ...writer, write: (chunk) => (take(chunk), writer.write(chunk)) };
    },
    writeInSteps: (writeInSteps) => async (key, options) => {
      const writer = await writeInSteps(key, options);
      return { ...writer, write: (chunk) => (take(chunk), writer.write(chunk)) };
    },
    open: (open) => async (key, options) => {
      const { info, body } = await open(key, options);
      const counting = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          take(chunk);
          controller.enqueue(chunk);
        },
      });
      return { info, body: body.pipeThrough(counting) };
    },
  });
}

/** Two servers over one storage, each as a process of its own. */
async function startTwo({ adapt }: StorageKind) {
  const root = await mkdtemp(join(tmpdir(), "sluice-moved-"));
  onTestFinished(() => rm(root, { recursive: true }));
  const moved = { bytes: 0 };
  const sluice = { endpoint: "http://127.0.0.1:1/mcp", keys: formatKey(generateKey()) };
  const uploads = { stores: { uploads: createMemoryUploadStore() }, sweepIntervalMs: 3_600_000 };
  const start = (): Promise<UploadServer> =>
    startUploadServer({ root, sluice, uploads, kind: (backend) => counted(adapt(backend), moved) });
  const servers = [await start(), await start()] as const;
  const at = (n: number, url: string): string =>
    url.replace("http://127.0.0.1:1/mcp", servers[n % 2]!.url);
  return { servers, at, moved };
}

/** Sends a file in steps of one size, each to the server that `serverOf` names. */
async function sendInSteps(
  { servers, at }: Awaited<ReturnType<typeof startTwo>>,
  bytes: Buffer<ArrayBuffer>,
  { stepBytes, serverOf }: { stepBytes: number; serverOf: (step: number) => number },
): Promise<{ readonly uploadId: string; readonly answer: Response }> {
  const { url, uploadId } = await servers[0].slot();
  const headers = { ...bearer("alice"), "upload-complete": "?0" };
  const begun = await fetch(at(0, url), { method: "POST", headers });
  const location = begun.headers.get("location")!;
  let answer = begun;
  for (let offset = 0, step = 0; offset < bytes.length; offset += stepBytes, step++) {
    const end = Math.min(bytes.length, offset + stepBytes);
    const told = {
      ...bearer("alice"),
      "content-type": "application/partial-upload",
      "upload-offset": String(offset),
      "upload-complete": end === bytes.length ? "?1" : "?0",
    };
    const init = { method: "PATCH", headers: told, body: bytes.subarray(offset, end) };
    answer = await fetch(at(serverOf(step), location), init);
    expect(answer.status).toBe(end === bytes.length ? 201 : 204);
  }
  return { uploadId, answer };
}

describe.each(storageKinds)("over $kind", (kind) => {
  // parts of 64 KiB: 30 of them and a rest
  const bytes = noise(30 * partBytes + 5_000);
  /** Plans, records, and what says where steps ended. */
  const small = 20_000;
  const { isInSteps } = kind;

  test("a file in steps moves each byte once, and the rest of a step twice more", async () => {
    const two = await startTwo(kind);
    const stepBytes = 4 * partBytes;
    const { answer } = await sendInSteps(two, bytes, { stepBytes, serverOf: () => 0 });
    expect(await answer.json()).toMatchObject({ size: bytes.length, sha256: sha256(bytes) });
    const times = isInSteps ? 1 : 3;
    expect(two.moved.bytes).toBeGreaterThanOrEqual(times * bytes.length);
    expect(two.moved.bytes).toBeLessThan(times * bytes.length + small);
  });

  test("steps that end within a part move what they could not keep, and no more", async () => {
    const two = await startTwo(kind);
    const stepBytes = 4 * partBytes + 1_000;
    await sendInSteps(two, bytes, { stepBytes, serverOf: () => 0 });
    const rests = 8 * 2 * partBytes;
    expect(two.moved.bytes).toBeLessThan((isInSteps ? 1 : 3) * bytes.length + rests + small);
  });

  test("a file whose steps come to several processes is read once more, and has its digest", async () => {
    const two = await startTwo(kind);
    const stepBytes = 5 * partBytes + 77;
    const serverOf = (step: number): number => step;
    const { answer, uploadId } = await sendInSteps(two, bytes, { stepBytes, serverOf });
    expect(await answer.json()).toMatchObject({ size: bytes.length, sha256: sha256(bytes) });
    const rests = 7 * 2 * partBytes;
    expect(two.moved.bytes).toBeLessThan((isInSteps ? 2 : 3) * bytes.length + rests + small);
    const claim = { name: "n", size: bytes.length, mimeType: "application/octet-stream" };
    const [file] = await two.servers[1].uploads.confirm(alice, uploadId, [claim]);
    const { body } = await file!.open();
    expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
  });

  test("a file whose steps came to several processes and has another digest is removed", async () => {
    const { servers, at } = await startTwo(kind);
    const { url, uploadId } = await servers[0].slot();
    const headers = {
      ...bearer("alice"),
      "upload-complete": "?0",
      "repr-digest": `sha-256=:${Buffer.alloc(32).toString("base64")}:`,
    };
    const begun = await fetch(at(0, url), {
      method: "POST",
      headers,
      body: bytes.subarray(0, 500),
    });
    const step = {
      ...bearer("alice"),
      "content-type": "application/partial-upload",
      "upload-offset": "500",
      "upload-complete": "?1",
    };
    const location = at(1, begun.headers.get("location")!);
    const last = await fetch(location, { method: "PATCH", headers: step, body: noise(500) });
    expect(last.status).toBe(422);
    expect(await servers[0].files()).toEqual([]);
    expect(countUnfinished(uploadId)).toBe(0);
  });

  test("leftovers in storage of unfinished files go with the sweep, the slot and the file", async () => {
    const { servers, at } = await startTwo(kind);
    for (const end of ["discard", "revoke", "delete"] as const) {
      const slot = await servers[0].slot();
      const headers = { ...bearer("alice"), "upload-complete": "?0" };
      const body = bytes.subarray(0, 3 * partBytes + 9);
      const begun = await fetch(at(0, slot.url), { method: "POST", headers, body });
      expect(begun.status).toBe(201);
      expect(countUnfinished(slot.uploadId)).toBe(kind.kind.includes("parts") ? 1 : 0);
      if (end === "discard") await servers[1].uploads.discard(slot.uploadId);
      if (end === "revoke") await servers[1].uploads.revoke(alice, slot);
      const location = at(1, begun.headers.get("location")!);
      if (end === "delete") await fetch(location, { method: "DELETE", headers: bearer("alice") });
      expect(countUnfinished(slot.uploadId)).toBe(0);
      const left = (await servers[0].files()).filter((path) => path.includes(slot.uploadId));
      expect(left.filter((path) => !path.endsWith("/confirmed"))).toEqual([]);
    }
  });
});
