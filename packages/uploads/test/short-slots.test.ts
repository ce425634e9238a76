import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createKeyRing, formatKey, generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createTokenStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";
import { newId } from "../src/slots/slots.ts";
import { SlotTokens } from "../src/slots/slot-token.ts";
import {
  alice,
  bearer,
  bob,
  noise,
  startUploadServer,
  type UploadServer,
} from "./upload-server.ts";

const run = promisify(execFile);
const terms = { accept: [], maxBytes: 1_000_000, maxFiles: 1 };
const selfAuthenticating = true;

async function shortSlot(server: UploadServer, more: object = {}) {
  return server.uploads.reserve(alice, { ...terms, ...more }, { selfAuthenticating });
}

/** A file of the user, for curl. */
async function fileNamed(name: string, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-curl-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

async function curl(...args: string[]): Promise<{ status: number; json: any }> {
  const { stdout } = await run("curl", ["-sS", "-w", "\n%{http_code}", ...args]);
  const at = stdout.lastIndexOf("\n");
  return { status: Number(stdout.slice(at + 1)), json: JSON.parse(stdout.slice(0, at)) };
}

test("a slot that authenticates itself has a URL of at most 80 characters, a bound one is sealed", async () => {
  const server = await startUploadServer();
  const { url, uploadId } = await shortSlot(server);
  const { pathname } = new URL(url);
  expect(pathname).toMatch(/^\/mcp\/u\/[\w-]{32}$/);
  expect(`http://127.0.0.1:2532${pathname}`.length).toBeLessThanOrEqual(80);
  // the id is a name, and no part of the secret
  expect(url).not.toContain(uploadId);
  expect((await server.slot()).url).toContain("/mcp/uploads/");
});

test("with keys that several processes have and no store, every slot is sealed, and no short URL opens", async () => {
  const keys = createKeyRing(formatKey(generateKey()));
  const server = await startUploadServer({ sluice: { keys } });
  const { url } = await shortSlot(server);
  expect(url).toContain("/mcp/uploads/");
  expect((await fetch(url, { method: "PUT", body: "x" })).status).toBe(201);
  const made = await fetch(`${server.url}/u/${"a".repeat(32)}`, { method: "PUT", body: "x" });
  expect(made.status).toBe(404);
});

type SendBytes = (url: string, bytes: Uint8Array<ArrayBuffer>) => Promise<Response>;

const put: SendBytes = (url, body) => fetch(url, { method: "PUT", body });

const post: SendBytes = (url, bytes) => {
  const body = new FormData();
  body.append("file", new Blob([bytes]), "a.bin");
  return fetch(url, { method: "POST", body });
};

const steps: SendBytes = async (url, bytes) => {
  const begin = { "upload-complete": "?0", "upload-length": `${bytes.length}` };
  const begun = await fetch(url, { method: "POST", headers: begin, body: bytes.subarray(0, 400) });
  const location = begun.headers.get("location")!;
  expect(location.startsWith(`${url}/`)).toBe(true);
  const headers = {
    "content-type": "application/partial-upload",
    "upload-offset": "400",
    "upload-complete": "?1",
  };
  return fetch(location, { method: "PATCH", headers, body: bytes.subarray(400) });
};

test.each([
  ["a body", put],
  ["a form", post],
  ["steps", steps],
])("a short slot takes %s, and its files are its owner's", async (_, send) => {
  const server = await startUploadServer();
  const { url, uploadId } = await shortSlot(server);
  expect((await send(url, noise(1_000))).status).toBe(201);
  await expect(server.uploads.received(bob, uploadId)).rejects.toMatchObject({ code: "not_found" });
  const came = await server.uploads.received(alice, uploadId);
  const [file] = await server.uploads.confirm(alice, uploadId, came);
  expect(file).toMatchObject({ size: 1_000 });
});

test("curl -T sends a file, also to the URL with a slash, behind which curl puts the name", async () => {
  const server = await startUploadServer();
  const path = await fileNamed("Übersicht 50% (a).txt", "a report");
  for (const [end, name] of [
    ["", "download"],
    ["/", "Übersicht 50% (a).txt"],
  ] as const) {
    const { url, uploadId } = await shortSlot(server);
    const { status, json } = await curl("-T", path, url + end);
    expect([status, json.uploadId, json.size]).toEqual([201, uploadId, 8]);
    const [file] = await server.uploads.received(alice, uploadId);
    expect(file).toMatchObject({ size: 8, name });
  }
  const { url } = await shortSlot(server);
  expect(await curl("-F", `file=@${path}`, url)).toMatchObject({ status: 201 });
});

test.each([
  ["a body", put],
  ["a form", post],
] as const)("the URL with a slash and nothing behind it takes %s", async (_, send) => {
  const server = await startUploadServer();
  const { url, uploadId } = await shortSlot(server);
  expect((await send(`${url}/`, noise(1_000))).status).toBe(201);
  expect(await server.uploads.received(alice, uploadId)).toMatchObject([{ size: 1_000 }]);
  const html = { headers: { accept: "text/html" }, redirect: "manual" } as const;
  expect((await fetch(`${url}/`, html)).status).toBe(303);
  expect((await fetch(`${url}/`)).status).toBe(200);
});

test.each([1, 2])("a slot for %s says how many files are there", async (maxFiles) => {
  const server = await startUploadServer();
  const { url } = await shortSlot(server, { maxFiles });
  for (let n = 0; n < maxFiles; n++) expect((await put(url, noise(1))).status).toBe(201);
  const words = maxFiles === 1 ? "there is one file already" : "there are 2 files already";
  const refused = await put(url, noise(1));
  expect([refused.status, await refused.text()]).toEqual([409, expect.stringContaining(words)]);
});

test("curl prints why a file is refused", async () => {
  const server = await startUploadServer();
  const { url } = await shortSlot(server, { maxBytes: 3 });
  const args = ["-sS", "--fail-with-body", "-T", await fileNamed("a.txt", "a report"), `${url}/`];
  await expect(run("curl", args)).rejects.toMatchObject({
    code: 22,
    stdout: expect.stringMatching(/at most 3 bytes/),
  });
});

test("a short slot dies with its revocation and its key, and an altered one was never there", async () => {
  const [first, second] = ["k1", "k2"].map((kid) => formatKey(generateKey({ kid }))) as [
    string,
    string,
  ];
  const state = createMemoryStateStore();
  const server = await startUploadServer({
    sluice: { stores: { ...createMemoryStores(), state }, keys: createKeyRing(first) },
  });
  const { url } = await shortSlot(server);
  const altered = url.slice(0, -1) + (url.endsWith("A") ? "B" : "A");
  expect((await put(altered, noise(1))).status).toBe(404);
  const revoked = await shortSlot(server);
  await server.uploads.revoke(alice, revoked);
  expect((await put(revoked.url, noise(1))).status).toBe(409);
  for (const keys of [second, `${second},${first}:previous`]) {
    // another process over the same store, which may have lost the key; its endpoint is another one
    const other = await startUploadServer({
      sluice: { stores: { ...createMemoryStores(), state }, keys: createKeyRing(keys) },
    });
    expect((await put(url.replace(server.url, other.url), noise(1))).status).toBe(404);
  }
  // the twin of all of them
  expect((await put(url, noise(1))).status).toBe(201);
});

test("a key that leaves the ring takes its short slots along, in every process of the endpoint", async () => {
  const [first, second] = ["k1", "k2"].map((kid) => formatKey(generateKey({ kid }))) as [
    string,
    string,
  ];
  const state = createMemoryStateStore();
  const endpoint = "http://127.0.0.1:9/mcp";
  const tokensWith = (keys: string) =>
    new SlotTokens(
      createSluice({
        storage: createMemoryBackend(),
        baseUri: "files://demo/",
        endpoint,
        keys: createKeyRing(keys),
        stores: { ...createMemoryStores(), state },
      }).host,
      { maxBytes: 10 },
    );
  const options = { selfAuthenticating, ttlMs: 60_000 };
  const { url } = await tokensWith(first).issue(alice, terms, options);
  const opened = await tokensWith(`${second},${first}:previous`).openUrl(url, Date.now());
  expect(opened).toMatchObject({ auth: "self", terms: { maxBytes: 10 } });
  const open = (keys: string, now: number) => tokensWith(keys).openUrl(url, now);
  await expect(open(second, Date.now())).rejects.toMatchObject({ code: "not_found" });
  await expect(open(first, Date.now() + 66_000)).rejects.toMatchObject({ code: "expired" });
});

test("the limits of failed redemptions and the records hold for short slots", async () => {
  const server = await startUploadServer();
  const guess = (n: number) =>
    fetch(`${server.url}/u/${String(n).padStart(32, "a")}`, { method: "PUT", body: "x" });
  for (let n = 0; n < 20; n++) expect((await guess(n)).status).toBe(404);
  expect((await guess(20)).status).toBe(429);
  const { url, uploadId } = await shortSlot(server);
  expect((await fetch(url, { method: "PUT", body: "x" })).status).toBe(201);
  const records = server.records.filter(({ grant }) => grant === uploadId);
  expect(records.map(({ step }) => step)).toEqual(["reserve", "receive"]);
  const [, , token] = /\/(u)\/(.*)$/.exec(url)!;
  expect(JSON.stringify(server.records)).not.toContain(token);
});

test("a bound slot lets no request in without its principal, wherever its token is put", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const short = url.replace("/uploads/", "/u/");
  expect((await fetch(short, { method: "PUT", body: "x" })).status).toBe(404);
  expect((await fetch(short, { method: "PUT", body: "x", headers: bearer("alice") })).status).toBe(
    404,
  );
});

test("a stored token that is bound to a principal opens no short slot", async () => {
  const { sluice, url } = await startUploadServer();
  const { keys, stores, endpoint } = sluice.host;
  const store = createTokenStore({ keys, state: stores.state, audience: endpoint.url });
  const statusWith = async (claims: { principal?: typeof alice }): Promise<number> => {
    const key = JSON.stringify([newId(), "anonymous", 100, 1, ""]);
    const { token } = await store.issue("upload", { key, ...claims }, { owner: "" });
    const { status } = await fetch(`${url}/u/${token}`, {
      method: "PUT",
      body: "x",
      headers: bearer("alice"),
    });
    return status;
  };
  expect([await statusWith({}), await statusWith({ principal: alice })]).toEqual([201, 404]);
});

test("a browser that may look at a bound slot gets no page, whose script would have no bearer", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const headers = { ...bearer("alice"), accept: "text/html" };
  const { status, headers: answered } = await fetch(url, { headers, redirect: "manual" });
  expect([status, answered.get("content-type")]).toEqual([
    200,
    expect.stringContaining("application/json"),
  ]);
});
