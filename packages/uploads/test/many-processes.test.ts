import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest, type ClientRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatKey, generateKey } from "@sluice/core";
import type { UploadStore } from "@sluice/state";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { wrapBackend } from "@sluice/storage";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  bearer,
  noise,
  startUploadServer,
  storageKinds,
  type UploadServer,
} from "./upload-server.ts";

/** Two servers over one folder, with the same keys and one address. */
async function startTwo(
  stores: readonly [UploadStore, UploadStore],
  uploads: Parameters<typeof startUploadServer>[0] = {},
): Promise<{ readonly servers: [UploadServer, UploadServer]; at: At }> {
  const root = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
  // said first, so it is done last: when neither of them writes any more
  onTestFinished(() => rm(root, { recursive: true }));
  const sluice = { endpoint: "http://127.0.0.1:1/mcp", keys: formatKey(generateKey()) };
  const start = (store: UploadStore): Promise<UploadServer> =>
    startUploadServer({
      root,
      sluice,
      ...uploads,
      uploads: { ...uploads.uploads, stores: { uploads: store } },
    });
  const servers: [UploadServer, UploadServer] = [await start(stores[0]), await start(stores[1])];
  return {
    servers,
    at: (server, url) => url.replace("http://127.0.0.1:1/mcp", servers[server].url),
  };
}
/** Where a URL is at one of the servers, as if a balancer had sent it there. */
type At = (server: 0 | 1, url: string) => string;

const shared = (): [UploadStore, UploadStore] => {
  const store = createMemoryUploadStore();
  return [store, store];
};
const apart = (): [UploadStore, UploadStore] => [
  createMemoryUploadStore(),
  createMemoryUploadStore(),
];
const put = (url: string, size: number): Promise<Response> =>
  fetch(url, { method: "PUT", headers: bearer("alice"), body: noise(size) });

function step(offset: number, isComplete: boolean): Record<string, string> {
  return {
    ...bearer("alice"),
    "content-type": "application/partial-upload",
    "upload-offset": String(offset),
    "upload-complete": isComplete ? "?1" : "?0",
  };
}

/** Begins a file at the first server, sends a part of a longer step, and falls silent. */
async function beginAndStall(
  { servers: [first], at }: Awaited<ReturnType<typeof startTwo>>,
  bytes: Buffer<ArrayBuffer>,
): Promise<{ location: string; sending: ClientRequest; ended: Promise<number> }> {
  const { url } = await first.slot();
  const headers = { ...bearer("alice"), "upload-complete": "?0" };
  const begun = await fetch(at(0, url), { method: "POST", headers });
  const location = begun.headers.get("location")!;
  const sending = httpRequest(at(0, location), {
    method: "PATCH",
    headers: { ...step(0, true), "content-length": String(bytes.length + 1_000) },
  });
  const ended = new Promise<number>((resolve) =>
    sending
      .on("response", (answer) => {
        answer.resume();
        resolve(answer.statusCode!);
      })
      .on("error", () => resolve(0)),
  );
  sending.write(bytes);
  const received = async (): Promise<unknown> =>
    ((await (await fetch(at(0, url), { headers: bearer("alice") })).json()) as { received: number })
      .received;
  await expect.poll(received).toBe(bytes.length);
  return { location, sending, ended };
}

test("an upload goes on in another process: the first one stops, and all that it received is kept", async () => {
  const two = await startTwo(shared());
  const bytes = noise(100_000);
  const { location, ended } = await beginAndStall(two, bytes);
  const there = two.at(1, location);
  const head = await fetch(there, { method: "HEAD", headers: bearer("alice") });
  expect(head.headers.get("upload-offset")).toBe("100000");
  // its connection was open all the time
  expect([503, 0]).toContain(await ended);
  const rest = noise(1_000);
  const last = await fetch(there, { method: "PATCH", headers: step(100_000, true), body: rest });
  expect(last.status).toBe(201);
  const sha256 = createHash("sha256").update(bytes).update(rest).digest("hex");
  expect(await last.json()).toMatchObject({ size: 101_000, sha256 });
});

test("negative control: without a shared store the other process does not see the files", async () => {
  const two = await startTwo(apart());
  const { location, sending, ended } = await beginAndStall(two, noise(100_000));
  const there = two.at(1, location);
  const head = await fetch(there, { method: "HEAD", headers: bearer("alice") });
  expect(head.headers.get("upload-offset")).toBe("0");
  sending.destroy();
  await ended;
});

test("a file that is given up in one process is no longer written in another", async () => {
  const two = await startTwo(shared());
  const { location, ended } = await beginAndStall(two, noise(1_000));
  const init = { method: "DELETE", headers: bearer("alice") };
  expect((await fetch(two.at(1, location), init)).status).toBe(204);
  expect([503, 0]).toContain(await ended);
  expect(await two.servers[0].files()).toEqual([]);
});

test.each(storageKinds)(
  "a process that slept through its time while it assembled a file makes nothing of it, and another one does, over $kind",
  async ({ adapt }) => {
    let isSlow = true;
    const sleepAt = (key: string): void => {
      if (isSlow && key.includes("/bytes-"))
        vi.spyOn(Date, "now").mockReturnValue(Date.now() + 10_000);
    };
    const store = createMemoryUploadStore();
    const server = await startUploadServer({
      uploads: { stores: { uploads: { ...store, renew: () => new Promise(() => {}) } } },
      wrap: (backend) =>
        wrapBackend(adapt(backend), {
          write: (write) => (key, options) => {
            sleepAt(key);
            return write(key, options);
          },
          writeInSteps: (writeInSteps) => (key, options) => {
            if (options?.id !== undefined) sleepAt(key);
            return writeInSteps(key, options);
          },
        }),
    });
    onTestFinished(() => void vi.restoreAllMocks());
    const { url } = await server.slot();
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const begun = await fetch(url, { method: "POST", headers, body: noise(100) });
    const location = begun.headers.get("location")!;
    const end = (): Promise<Response> =>
      fetch(location, { method: "PATCH", headers: step(100, true), body: "" });
    expect((await end()).status).toBe(503);
    expect((await server.files()).filter((path) => path.includes("bytes-"))).toEqual([]);
    isSlow = false;
    expect((await end()).status).toBe(201);
  },
);

test("limits of one user count for all processes together", async () => {
  for (const [stores, status] of [
    [shared(), 507],
    [apart(), 201], // the twin
  ] as const) {
    const { servers, at } = await startTwo(stores, {
      uploads: { limits: { fileBytes: { perPrincipal: 500 } } },
    });
    expect((await put(at(0, (await servers[0].slot()).url), 300)).status).toBe(201);
    expect((await put(at(1, (await servers[0].slot()).url), 300)).status).toBe(status);
  }
});

test("a process that never sweeps forgets what it counted, too", async () => {
  const { servers, at } = await startTwo(shared());
  await servers[0].uploads.sweep();
  const { url, uploadId } = await servers[1].slot();
  expect((await put(at(1, url), 100)).status).toBe(201);
  expect(servers[1].uploads.progress(uploadId).bytes).toBe(100);
  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 2 * 3_600_000);
  for (const { uploads } of servers) await uploads.sweep();
  expect(servers[1].uploads.progress(uploadId).bytes).toBe(0);
});

test("one process sweeps, and another one when that is closed", async () => {
  for (const [stores, sweeps] of [
    [shared(), 1],
    [apart(), 2], // the twin
  ] as const) {
    const swept: string[] = [];
    const { servers } = await startTwo(stores, {
      wrap: (backend) =>
        wrapBackend(backend, {
          list: (list) => (options) => {
            if (options?.prefix === "uploads/1/") swept.push("uploads/");
            return list(options);
          },
        }),
    });
    await Promise.all(servers.map(({ uploads }) => uploads.sweep()));
    const atStart = swept.length;
    await Promise.all(servers.map(({ uploads }) => uploads.sweep()));
    expect(swept.length - atStart).toBe(sweeps);
    await servers[0].uploads.close();
    const before = swept.length;
    await servers[1].uploads.sweep();
    expect(swept.length - before).toBe(1);
  }
});
