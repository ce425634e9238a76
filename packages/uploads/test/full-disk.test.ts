import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as openRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { wrapBackend, type ObjectWriter, type StorageBackend } from "@sluice/storage";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { UploadRequest } from "../src/receive/request-facts.ts";
import { StorageRoom } from "../src/limits/room.ts";
import { faultFor } from "../src/files-sep-2631/file-fault.ts";
import {
  alice,
  bearer,
  noise,
  startUploadServer,
  storageKinds,
  type StorageKind,
  type UploadServer,
} from "./upload-server.ts";

/** A backend that has no room for objects of some keys, while a test says so. */
function limited(code: SluiceErrorCode = "no_space") {
  const state = { isFull: (_key: string): boolean => false };
  const refuse = (key: string): void => {
    if (state.isFull(key)) throw new SluiceError(code, "stub: write: the disk is full (ENOSPC)");
  };
  const fill = (backend: StorageBackend): StorageBackend =>
    wrapBackend(backend, {
      writeInSteps: (writeInSteps) => async (key, options) => {
        const writer = await writeInSteps(key, options);
        return {
          ...writer,
          write: async (chunk) => (refuse(key), writer.write(chunk)),
        };
      },
      write: (write) => async (key, options) => {
        const writer = await write(key, options);
        return {
          write: async (chunk) => (refuse(key), writer.write(chunk)),
          async commit() {
            try {
              refuse(key);
            } catch (error) {
              await writer.abort();
              throw error;
            }
            return writer.commit();
          },
          abort: () => writer.abort(),
          [Symbol.asyncDispose]: () => writer.abort(),
        } satisfies ObjectWriter;
      },
    });
  return { state, fill };
}

const put = (url: string, body: Buffer<ArrayBuffer>): Promise<Response> =>
  fetch(url, { method: "PUT", headers: bearer("alice"), body });

async function begin(url: string): Promise<Response> {
  return fetch(url, { method: "POST", headers: { ...bearer("alice"), "upload-complete": "?0" } });
}

function append(
  location: string,
  offset: number,
  body: Buffer<ArrayBuffer>,
  isComplete = false,
): Promise<Response> {
  const headers = {
    ...bearer("alice"),
    "content-type": "application/partial-upload",
    "upload-offset": String(offset),
    "upload-complete": isComplete ? "?1" : "?0",
  };
  return fetch(location, { method: "PATCH", headers, body });
}

async function expectNoRoom(answer: Response, server: UploadServer): Promise<void> {
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([507, "60"]);
  expect(await answer.json()).toMatchObject({ status: 507, reason: "storage" });
  const last = server.records.at(-1)!;
  expect([last.step, last.outcome, last.reason]).toEqual(["receive", "failed", "no_space"]);
}

describe("a storage without room is answered with 507 and a time to come back", () => {
  test(
    "a file that is sent at once leaves nothing, alone or in a form",
    { tags: "slow" },
    async () => {
      const { state, fill } = limited();
      const server = await startUploadServer({ wrap: fill });
      for (const kind of ["bytes-", "file-"]) {
        state.isFull = (key) => key.includes(`/${kind}`);
        await expectNoRoom(await put((await server.slot()).url, noise(700_000)), server);
        expect(await server.files()).toEqual([]);
        const body = new FormData();
        body.append("file", new Blob([noise(700_000)]), "a.bin");
        const init = { method: "POST", headers: bearer("alice"), body };
        await expectNoRoom(await fetch((await server.slot()).url, init), server);
        expect(await server.files()).toEqual([]);
      }
      state.isFull = () => false;
      expect((await put((await server.slot()).url, noise(700_000))).status).toBe(201);
    },
  );

  test.each(storageKinds)(
    "a file in steps that became larger than the storage takes is removed at once, over $kind",
    async ({ start }) => {
      const { state, fill } = limited("too_large");
      const server = await start({ wrap: fill });
      const location = (await begin((await server.slot()).url)).headers.get("location")!;
      expect((await append(location, 0, noise(100_000))).status).toBe(204);
      state.isFull = () => true;
      const refused = await append(location, 100_000, noise(100_000));
      expect([refused.status, ((await refused.json()) as { reason: string }).reason]).toEqual([
        413,
        "too_large",
      ]);
      expect(await server.files()).toEqual([]);
    },
  );

  const [inSteps, , inParts] = storageKinds as [StorageKind, StorageKind, StorageKind];
  test.each([
    { ...inSteps, object: "step-" },
    { ...inSteps, object: "bytes-" },
    { ...inSteps, object: "file-" },
    { ...inParts, object: "part-" },
    { ...inParts, object: "bytes-" },
    { ...inParts, object: "file-" },
  ])(
    "a file in steps is removed at once, whether a $object object did not fit or another, over $kind",
    async ({ start, object }) => {
      const { state, fill } = limited();
      const server = await start({
        wrap: fill,
        uploads: { limits: { files: { perPrincipal: 1 } } },
      });
      const { url, uploadId } = await server.slot();
      const location = (await begin(url)).headers.get("location")!;
      expect((await append(location, 0, noise(100_000))).status).toBe(204);
      state.isFull = (key) => key.includes(`/${object}`);
      // only a step that is not the last one says how far it is
      const isLast = object !== "step-";
      await expectNoRoom(await append(location, 100_000, noise(100_000), isLast), server);
      expect(await server.files()).toEqual([]);
      const gone = await fetch(location, { method: "HEAD", headers: bearer("alice") });
      expect(gone.status).toBe(404);
      state.isFull = () => false;
      // the same slot takes the file again, and it counts once
      const again = (await begin(url)).headers.get("location")!;
      expect((await append(again, 0, noise(200_000), true)).status).toBe(201);
      expect(await server.uploads.received(alice, uploadId)).toMatchObject([{ size: 200_000 }]);
      // the operator hears of the full disk, and of nothing that came of it
      const codes = server.errors.map((error) => (error as { code?: string }).code);
      expect(new Set(codes)).toEqual(new Set(["no_space"]));
      expect(await server.files()).toHaveLength(2);
    },
  );

  test("a file that cannot be begun takes nothing of what its owner may have", async () => {
    const { state, fill } = limited();
    const server = await startUploadServer({
      wrap: fill,
      uploads: { limits: { files: { perPrincipal: 1 } } },
    });
    state.isFull = (key) => key.includes("/plan-");
    await expectNoRoom(await begin((await server.slot()).url), server);
    expect(await server.files()).toEqual([]);
    state.isFull = () => false;
    expect((await begin((await server.slot()).url)).status).toBe(201);
  });
});

test("a file that storage takes at no time is too large, which is the server's fault no more than the sender's", async () => {
  const { state, fill } = limited("too_large");
  const server = await startUploadServer({ wrap: fill });
  state.isFull = () => true;
  const answer = await put((await server.slot()).url, noise(1_000));
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([413, null]);
  expect(await answer.json()).toMatchObject({ reason: "too_large" });
});

test("the quota of a user is another reason, with no time to come back", async () => {
  const server = await startUploadServer({
    uploads: { limits: { fileBytes: { perPrincipal: 100 } } },
  });
  const answer = await put((await server.slot()).url, noise(1_000));
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([507, null]);
  expect(await answer.json()).toMatchObject({ reason: "quota" });
});

test.for(storageKinds.filter(({ kind }) => kind !== "a service that takes parts"))(
  "a file sent at once, or in steps, leaves nothing on a full disk of 8 MiB, over $kind",
  async ({ start }, context) => {
    const root = await mkdtemp(join(tmpdir(), "sluice-full-"));
    onTestFinished(() => rm(root, { recursive: true }));
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", root], { stdio: "ignore" });
    } catch {
      context.skip("this process may not mount a small file system");
      return;
    }
    onTestFinished(() => void execFileSync("umount", ["-l", root], { stdio: "ignore" }));
    const server = await start({ root });
    await expectNoRoom(await put((await server.slot()).url, noise(9_000_000)), server);
    expect(await server.files()).toEqual([]);

    const { url } = await server.slot();
    const location = (await begin(url)).headers.get("location")!;
    expect((await append(location, 0, noise(1_000_000))).status).toBe(204);
    await writeFile(join(root, "ballast"), noise(6_800_000));
    await expectNoRoom(await append(location, 1_000_000, noise(900_000)), server);
    expect(await server.files()).toEqual([join(root, "ballast")]);
  },
);

describe("room is asked for before the first byte", () => {
  /** A server over a storage that says how much is free. */
  async function startWithRoom(free: { bytes: number | undefined }): Promise<UploadServer> {
    const outside = (backend: StorageBackend): StorageBackend => ({
      ...backend,
      freeBytes: async () => free.bytes,
    });
    return startUploadServer({ wrap: outside });
  }

  const large = 2_000_000;
  type Sending = readonly [what: string, more: Record<string, string>, body?: Buffer<ArrayBuffer>];
  const ways: readonly Sending[] = [
    ["a file at once", {}, noise(large)],
    ["a file in steps", { "upload-complete": "?0", "upload-length": String(large) }],
    ["a file by tus", { "tus-resumable": "1.0.0", "upload-length": String(large) }],
  ];
  test.for(ways)(
    "%s that does not fit leaves nothing, and is taken once it fits",
    async ([, more, body]) => {
      const free = { bytes: large - 1 };
      const server = await startWithRoom(free);
      const { url } = await server.slot();
      const headers = { ...bearer("alice"), ...more };
      const init = { method: "POST", headers, ...(body && { body }) };
      await expectNoRoom(await fetch(url, init), server);
      expect(await server.files()).toEqual([]);
      free.bytes = large;
      expect((await fetch(url, init)).status).toBe(201);
    },
  );

  test("a form that does not fit is refused, too", async () => {
    const server = await startWithRoom({ bytes: large - 1 });
    const body = new FormData();
    body.append("file", new Blob([noise(large)]), "a.bin");
    const init = { method: "POST", headers: bearer("alice"), body };
    await expectNoRoom(await fetch((await server.slot()).url, init), server);
  });

  test("a file whose rest does not fit any more is removed at once", async () => {
    const free = { bytes: 10 * large };
    const server = await startWithRoom(free);
    const location = (await begin((await server.slot()).url)).headers.get("location")!;
    expect((await append(location, 0, noise(100_000))).status).toBe(204);
    free.bytes = large - 1;
    await expectNoRoom(await append(location, 100_000, noise(large), true), server);
    expect(await server.files()).toEqual([]);
  });

  test("a file that gives way to what others are sending stays, and goes on when they are done", async () => {
    let questions = 0;
    const free = {
      get bytes() {
        questions += 1;
        return 10 * large;
      },
    };
    const server = await startWithRoom(free);
    const location = (await begin((await server.slot()).url)).headers.get("location")!;
    expect((await append(location, 0, noise(100_000))).status).toBe(204);
    // one that announces much and sends nothing
    const greedy = openRequest((await server.slot()).url, {
      method: "PUT",
      headers: bearer("alice"),
    });
    greedy.on("error", () => {});
    greedy.setHeader("content-length", 10 * large);
    greedy.flushHeaders();
    await vi.waitFor(() => expect(questions).toBe(1));
    await expectNoRoom(await append(location, 100_000, noise(large), true), server);
    greedy.destroy();
    await vi.waitFor(
      async () => expect((await append(location, 100_000, noise(large), true)).status).toBe(201),
      10_000,
    );
  });

  test("uploads in progress have their room, less the bytes that have arrived", async () => {
    const room = new StorageRoom({ freeBytes: async () => 10_000_000 });
    const request = {
      slot: { terms: { maxBytes: 10_000_000, maxFiles: 1 } },
      signal: new AbortController().signal,
      onBytes() {},
    } as unknown as UploadRequest;
    const start = (bytes: number) => {
      let end!: () => void;
      let ending: Promise<void> | undefined;
      const begun = new Promise<UploadRequest>((resolve, reject) => {
        const work = (booked: UploadRequest): Promise<void> => {
          resolve(booked);
          return new Promise((finish) => void (end = finish));
        };
        ending = room.during(request, bytes, work);
        ending.catch(reject);
      });
      return { begun, end: async () => (end(), ending) };
    };
    const first = start(6_000_000);
    const booked = await first.begun;
    await expect(start(5_000_000).begun).rejects.toMatchObject({ code: "no_space" });
    booked.onBytes(1_000_000);
    const second = start(5_000_000);
    await second.begun;
    await Promise.all([first.end(), second.end()]);
    // of two at the same time the first one gets it
    const [one, two] = [start(8_000_000), start(5_000_000)];
    await expect(two.begun).rejects.toMatchObject({ code: "no_space" });
    await one.begun;
    await one.end();
  });

  test("a storage that does not tell has room", async () => {
    const server = await startWithRoom({ bytes: undefined });
    expect((await put((await server.slot()).url, noise(large))).status).toBe(201);
  });
});

test("a file inside a message, for which there is no room, is refused in words, and the operator hears of it", () => {
  const errors: unknown[] = [];
  const error = new SluiceError("no_space", 'fs: write "a": the disk is full (ENOSPC)');
  expect(faultFor(error, (told) => errors.push(told))).toMatchObject({
    code: -32603,
    message: "files: there is no room for the file at the moment",
    data: { reason: "noSpace" },
  });
  expect(errors).toEqual([error]);
});
