import { request as httpRequest } from "node:http";
import type { UploadStore } from "@sluice/state";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { expect, test } from "vitest";
import { WriteLock } from "../src/limits/write-lock.ts";
import { bearer, bob, noise, startUploadServer, type UploadServer } from "./upload-server.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const madeUp = isDeep ? 30_000 : 50;
if (!isDeep) console.log("foreign files: 30,000 made-up ids are for SLUICE_DEEP=1");

const step = {
  "content-type": "application/partial-upload",
  "upload-offset": "0",
  "upload-complete": "?1",
};

/** A store that tells which of its methods were called for which owner or file. */
function watched(calls: Set<string>): UploadStore {
  const store = createMemoryUploadStore();
  return {
    ...store,
    enter: (owner, ...rest) => (calls.add(`enter ${owner}`), store.enter(owner, ...rest)),
    hold: (owner, ...rest) => (calls.add(`hold ${owner}`), store.hold(owner, ...rest)),
    claim: (fileId, lease) => (calls.add(`claim ${fileId}`), store.claim(fileId, lease)),
  };
}

/** A file of Alice's of which half has come, while the rest is still to be sent. */
async function sendHalf(server: UploadServer) {
  const { url } = await server.slot();
  const begun = await fetch(url, {
    method: "POST",
    headers: { ...bearer("alice"), "upload-complete": "?0" },
  });
  const location = begun.headers.get("location")!;
  const bytes = noise(100_000);
  const sending = httpRequest(location, {
    method: "PATCH",
    headers: { ...bearer("alice"), ...step, "content-length": String(bytes.length) },
  });
  const answered = new Promise<number>((resolve) =>
    sending
      .on("response", (answer) => {
        answer.resume();
        resolve(answer.statusCode!);
      })
      .on("error", () => resolve(0)),
  );
  sending.write(bytes.subarray(0, 50_000));
  const received = async (): Promise<unknown> => {
    const overview = await fetch(url, { headers: bearer("alice") });
    return ((await overview.json()) as { received: number }).received;
  };
  await expect.poll(received).toBe(50_000);
  return {
    fileId: location.split("/").at(-1)!,
    /** Sends the rest; the status of the answer. */
    finish: (): Promise<number> => {
      sending.end(bytes.subarray(50_000));
      return answered;
    },
  };
}

/** Asks for a file, through a slot, with every method that a file has. */
async function askAll(slotUrl: string, name: string, fileId: string): Promise<number[]> {
  const statuses: number[] = [];
  for (const method of ["HEAD", "PATCH", "DELETE"]) {
    const init = method === "PATCH" ? { headers: step, body: noise(10) } : { headers: {} };
    const headers = { ...init.headers, ...bearer(name) };
    const answer = await fetch(`${slotUrl}/${fileId}`, { ...init, method, headers });
    statuses.push(answer.status);
  }
  return statuses;
}

const terms = { accept: [], maxBytes: 1_000_000, maxFiles: 1 };

test("a slot of another user with the id of a file does not end the request that sends the file", async () => {
  const server = await startUploadServer();
  const { fileId, finish } = await sendHalf(server);
  const foreign = await server.uploads.reserve(bob, terms);
  expect(await askAll(foreign.url, "bob", fileId)).toEqual([404, 404, 404]);
  // nor does another slot of the same user
  expect(await askAll((await server.slot()).url, "alice", fileId)).toEqual([404, 404, 404]);
  expect(await finish()).toBe(201);
});

test(
  "negative control: a lock that is taken before the file is looked for ends the request",
  { tags: "slow" },
  async () => {
    const store = createMemoryUploadStore();
    const server = await startUploadServer({ uploads: { stores: { uploads: store } } });
    const { fileId, finish } = await sendHalf(server);
    const lock = new WriteLock(store, (error) => server.errors.push(error));
    const lease = await lock.acquire(fileId, new AbortController().signal);
    expect([503, 0]).toContain(await finish());
    await lease.release();
  },
);

test("a refusal of a file that the slot does not have is recorded, with the owner of the slot", async () => {
  const server = await startUploadServer();
  const { fileId, finish } = await sendHalf(server);
  const foreign = await server.uploads.reserve(bob, terms);
  const { principal } = server.records.at(-1)!;
  const before = server.records.length;
  await askAll(foreign.url, "bob", fileId);
  const common = { action: "upload", outcome: "denied", reason: "not_found" };
  const of = { ...common, grant: foreign.uploadId, principal };
  expect(server.records.slice(before)).toMatchObject([
    { ...of, step: "inspect" },
    { ...of, step: "receive" },
    { ...of, step: "discard" },
  ]);
  expect(await finish()).toBe(201);
});

test(
  `ids that are made up cost other uploads nothing: no lock, no place, no entry (${madeUp} times)`,
  { tags: "slow" },
  async () => {
    const calls = new Set<string>();
    const pace = { idleMs: 3_600_000, rateWindowMs: 3_600_000 };
    const server = await startUploadServer({
      uploads: { stores: { uploads: watched(calls) }, pace },
    });
    const sent = await sendHalf(server);
    const foreign = await server.uploads.reserve(bob, terms);
    const before = [...calls];
    let left = madeUp;
    const ask = async (): Promise<void> => {
      while (left-- > 0) {
        const url = `${foreign.url}/${Buffer.from(noise(24)).toString("base64url")}`;
        expect((await fetch(url, { method: "HEAD", headers: bearer("bob") })).status).toBe(404);
      }
    };
    await Promise.all(Array.from({ length: 16 }, ask));
    expect([...calls]).toEqual(before);
    const headers = { ...bearer("alice"), "upload-complete": "?1" };
    const other = { method: "POST", headers, body: noise(1_000) };
    expect((await fetch((await server.slot()).url, other)).status).toBe(201);
    expect(await sent.finish()).toBe(201);
  },
);
