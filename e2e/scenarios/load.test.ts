// @module-tag slow
import { request as send } from "node:http";
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import type { DeliveryMode } from "@sluice/core/internal";
import type { PrincipalStorage } from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { expect, test, vi } from "vitest";
import type { ServeSettings } from "../bed/programs/serve.ts";
import { startProgram } from "../bed/program.ts";
import { call, send as fetchRaw, type RawAnswer } from "../bed/raw.ts";
import { startSite, type Account, type Site } from "../bed/site.ts";
import type { Memory } from "../bed/watch.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mib = 2 ** 20;

const contentOf = (subject: string): string => `${subject};`.repeat(400);

/** Asks for a resource and stops reading after the headers. */
function stall(url: string, of: string): Promise<IncomingMessage> {
  const clientCapabilities = { resourceStreaming: {} };
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "resources/stream",
    params: {
      uri: of,
      _meta: { "io.modelcontextprotocol/clientCapabilities": clientCapabilities },
    },
  });
  return new Promise((resolve, reject) => {
    const headers = {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2025-11-25",
    };
    const outgoing = send(url, { method: "POST", headers, agent: false });
    outgoing.on("response", resolve).on("error", reject).end(body);
  });
}

const stalled = deep ? 100 : 40;

test.concurrent("readers who stall cost the server little, and others are served meanwhile", async () => {
  const settings: ServeSettings = {
    sparse: { "direct/large.bin": 2 ** 30 },
    files: { "direct/small.txt": "small" },
  };
  await using server = await startProgram<{ url: string }>("serve", settings);
  const { url } = server.hello;
  const warm = await stall(url, "files://site/direct/large.bin");
  warm.destroy();
  const idle = await server.ask<Memory>("memory");

  const readers: IncomingMessage[] = [];
  for (let n = 0; n < stalled; n += 10)
    readers.push(
      ...(await Promise.all(
        Array.from({ length: 10 }, () => stall(url, "files://site/direct/large.bin")),
      )),
    );
  for (const reader of readers) expect(reader.headers["content-length"]).toBe(String(2 ** 30));
  // long enough for buffers to fill as far as they will
  await new Promise((resolve) => setTimeout(resolve, 500));
  const small = await call(
    url,
    "resources/stream",
    { uri: "files://site/direct/small.txt" },
    { streaming: {} },
  );
  expect(small.bytes.toString()).toBe("small");
  const busy = await server.ask<Memory>("memory");
  for (const reader of readers) reader.destroy();

  const each = (busy.peak - idle.now) / readers.length / mib;
  process.stdout.write(`a stalled reader: ${each.toFixed(2)} MiB\n`);
  expect(each).toBeLessThanOrEqual(1.5);
});

const aborts = deep ? 10_000 : 20;

test.concurrent(
  `${aborts} readers that leave in the middle leave nothing behind`,
  async () => {
    await using server = await startProgram<{ url: string }>("serve", {
      sparse: { "direct/large.bin": 2 ** 30 },
      files: { "direct/small.txt": "small" },
      mostStreams: deep ? 50 : 15,
    } satisfies ServeSettings);
    const { url } = server.hello;
    const descriptors = () => server.ask<{ descriptors: number }>("descriptors");
    (await stall(url, "files://site/direct/large.bin")).destroy();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const before = await descriptors();
    for (let n = 0; n < aborts; n += 10) {
      const readers = Array.from({ length: 10 }, () => stall(url, "files://site/direct/large.bin"));
      for (const reader of await Promise.all(readers)) reader.destroy();
    }
    // more than the streams that this process takes at once: none of them counts any more
    const small = await text(await stall(url, "files://site/direct/small.txt"));
    expect(small).toBe("small");
    await vi.waitFor(async () => expect(await descriptors()).toEqual(before), { timeout: 10_000 });
  },
  deep ? 120_000 : 60_000,
);

const uri = "files://site/mine.txt";

/** A site on which everybody has a file that says whose it is. */
function startShared(
  people: readonly string[],
  storeOf: (stores: ReadonlyMap<string, StorageBackend>) => PrincipalStorage,
): Promise<Site> {
  const accounts = people.map((subject): [string, Account] => [`token-of-${subject}`, { subject }]);
  const stores = people.map((subject): [string, StorageBackend] => [
    subject,
    createMemoryBackend({ "mine.txt": contentOf(subject) }),
  ]);
  return startSite({
    accounts: Object.fromEntries(accounts),
    sluice: { storage: storeOf(new Map(stores)), limits: { streams: { perProcess: 5_000 } } },
  });
}

/** Everybody streams their own file, all at the same time; gives the bodies that were not theirs. */
async function visitAll(site: Site, people: readonly string[], rounds: number): Promise<string[]> {
  const foreign: string[] = [];
  async function visit(subject: string, at: number): Promise<void> {
    const token = `token-of-${subject}`;
    const check = ({ bytes }: RawAnswer) => {
      if (bytes.toString() !== contentOf(subject)) foreign.push(bytes.toString());
    };
    for (let round = 0; round < rounds; round++) {
      const ask = (prefer: DeliveryMode) => {
        const era = round % 2 === 0 ? "modern" : "legacy";
        const streaming = { prefer: [prefer] };
        return call(site.url, "resources/stream", { uri }, { token, streaming, era });
      };
      check(await ask("direct"));
      const { message } = await ask("downloadUrl");
      const url = String(message?.result?.["downloadUrl"]);
      check(await fetchRaw("GET", url, { headers: { authorization: `Bearer ${token}` } }));
      const authorization = `Bearer token-of-${people[(at + 1) % people.length]}`;
      const { status, bytes } = await fetchRaw("GET", url, { headers: { authorization } });
      if (status !== 404) foreign.push(bytes.toString());
    }
  }
  await Promise.all(people.map(visit));
  return foreign;
}

const crowd = deep ? 500 : 20;

test.concurrent(
  "principals at once get their own bytes and never another's",
  async () => {
    const people = Array.from({ length: crowd }, (_, n) => `user-${n}`);
    await using site = await startShared(people, (stores) => (user) => stores.get(user!.subject)!);
    expect(await visitAll(site, people, deep ? 25 : 2)).toEqual([]);
  },
  deep ? 300_000 : 60_000,
);

test.concurrent("negative control: a server that mixes up its users is found out", async () => {
  const people = Array.from({ length: 10 }, (_, n) => `user-${n}`);
  let served = 0;
  await using site = await startShared(people, (stores) => () => {
    served += 1;
    return stores.get(people[served % 7]!)!;
  });
  expect(await visitAll(site, people, 1)).not.toEqual([]);
});
