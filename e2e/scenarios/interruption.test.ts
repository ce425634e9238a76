import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import { generateKey } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";
import { connect, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { createMeddler, passOn, type Exchange, type Meddler } from "../bed/meddler.ts";
import { createSigningStore, type SigningStore } from "../bed/signing-store.ts";
import { startSite, type SiteOptions } from "../bed/site.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const content = bytesOf(8_000_000, "old");
const uri = "files://site/disk.img";
const accounts = { "alice-token": { subject: "alice" } };
const timeouts = { pauseScale: 0 };
const hosted: DeliveryMode[] = ["direct", "downloadUrl"];

/** A site behind a cable. */
async function startWired(mode: DeliveryMode) {
  let wire: Wire | undefined;
  const site = await startSite({
    files: { "disk.img": content },
    accounts,
    front: async (target) => (wire = await createWire(target)),
    sluice: { delivery: mode },
  });
  return { site, wire: wire! };
}

/** A site behind a proxy that says what the test wants. */
async function startMeddled(mode: DeliveryMode) {
  let meddler: Meddler | undefined;
  const site = await startSite({
    files: { "disk.img": content },
    accounts,
    front: async (target) => (meddler = await createMeddler(target)),
    sluice: { delivery: mode },
  });
  return { site, meddler: meddler! };
}

describe.each(sdkNames)("%s", (sdk) => {
  test.each(hosted)(
    "goes on where the connection broke, %s [SEP-2532/6.errors/should-retry-transfer] [SEP-2532/3.errors/should-retry-download]",
    async (mode) => {
      const { site, wire } = await startWired(mode);
      await using _ = site;
      const client = await connect(sdk, site.url, { token: "alice-token" });
      const before = wire.sent;
      wire.cutAfter(3_000_000);
      const stream = await streamResource(client, uri, { timeouts });
      const { path } = await stream.saveTo(join(site.target, "disk.img"));
      expect((await readFile(path)).equals(content)).toBe(true);
      // a restart from zero would have cost the first part again
      expect(wire.sent - before).toBeLessThan(content.length + 1_000_000);
      await client.close();
    },
  );
});

test("goes on at a storage origin too", async () => {
  let store: SigningStore | undefined;
  let wire: Wire | undefined;
  await using site = await startSite({
    files: { "disk.img": content },
    storage: async (files) => {
      store = await createSigningStore(files, {
        front: async (target) => (wire = await createWire(target)),
      });
      return store.backend;
    },
    sluice: () => ({ delivery: "redirect", redirectOrigins: [store!.origin] }),
  });
  const client = await connect("SDK v2, modern", site.url);
  wire!.cutAfter(3_000_000);
  const trustedOrigins = [store!.origin];
  const stream = await streamResource(client, uri, { timeouts, trustedOrigins });
  const { path } = await stream.saveTo(join(site.target, "disk.img"));
  expect((await readFile(path)).equals(content)).toBe(true);
  expect(store!.requests.at(-1)!.headers.range).toMatch(/^bytes=\d+-/);
  expect(store!.requests.at(-1)!.headers["if-range"]).toMatch(/^"/);
  await client.close();
  await store!.close();
});

test("three cuts in one download still give one whole file", async () => {
  const { site, wire } = await startWired("downloadUrl");
  await using _ = site;
  const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
  let cuts = 0;
  const stream = await streamResource(client, uri, {
    timeouts,
    onProgress({ bytes }) {
      if (cuts < 3 && bytes > (cuts + 1) * 2_000_000) {
        cuts++;
        wire.cut();
        wire.mend();
      }
    },
  });
  const { path } = await stream.saveTo(join(site.target, "disk.img"));
  expect(cuts).toBe(3);
  expect((await readFile(path)).equals(content)).toBe(true);
  await client.close();
});

test("a server that is killed and started again goes on with the same download", async () => {
  let port = 0;
  const wire = await createWire(() => port);
  const keys = [generateKey()];
  const options = {
    accounts,
    front: async () => wire,
    sluice: { delivery: "downloadUrl", keys },
  } satisfies SiteOptions;
  const first = await startSite({ ...options, files: { "disk.img": content } });
  ({ port } = first);
  const second = await startSite({ ...options, root: first.root });
  const client = await connect("SDK v2, modern", first.url, { token: "alice-token" });
  let asked = 0;
  const stream = await streamResource(client, uri, {
    timeouts,
    onProgress({ bytes }) {
      if (bytes < 2_000_000 || asked++ > 0) return;
      ({ port } = second);
      wire.cut();
      wire.mend();
    },
  });
  const { path } = await stream.saveTo(join(first.target, "disk.img"));
  expect(asked).toBeGreaterThan(1);
  expect((await readFile(path)).equals(content)).toBe(true);
  await client.close();
  await second[Symbol.asyncDispose]();
  await first[Symbol.asyncDispose]();
});

describe("a body that is not whole is no file [SEP-2532/security/should-verify-length]", () => {
  const broken: [string, (exchange: Exchange) => Promise<boolean>][] = [
    [
      "shorter than its Content-Length",
      async ({ answer, response }) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.resume();
        response.write(content.subarray(0, 100_000));
        setTimeout(() => response.socket?.end(), 20);
        return true;
      },
    ],
    [
      "chunked, and cut before the last chunk",
      async ({ answer, response }) => {
        const { "content-length": _, ...headers } = answer.headers;
        response.writeHead(answer.statusCode!, headers);
        answer.resume();
        response.write(content.subarray(0, 100_000));
        setTimeout(() => response.socket?.end(), 20);
        return true;
      },
    ],
    [
      "chunked, ended cleanly and short of the size that was promised",
      async ({ answer, response }) => {
        const { "content-length": _, ...headers } = answer.headers;
        response.writeHead(answer.statusCode!, headers);
        answer.resume();
        response.end(content.subarray(0, 100_000));
        return true;
      },
    ],
    [
      "delimited by the end of the connection",
      async ({ answer, response }) => {
        answer.resume();
        const head = Object.entries(answer.headers).filter(
          ([name]) => !["content-length", "connection", "keep-alive"].includes(name),
        );
        const lines = head.map(([name, value]) => `${name}: ${String(value)}`);
        response.socket!.end(
          Buffer.concat([
            Buffer.from(`HTTP/1.1 200 OK\r\n${lines.join("\r\n")}\r\nconnection: close\r\n\r\n`),
            content.subarray(0, 100_000),
          ]),
        );
        return true;
      },
    ],
  ];
  /** The first answer to a download is a bad one, and there is no second one. */
  const answerOnceBy = (answerBadly: (exchange: Exchange) => Promise<boolean>) => {
    let answered = false;
    return (exchange: Exchange): boolean | Promise<boolean> => {
      if (exchange.request.method !== "GET" || exchange.answer.statusCode! >= 300) return false;
      if (!answered) {
        answered = true;
        return answerBadly(exchange);
      }
      exchange.answer.resume();
      exchange.response.writeHead(500).end();
      return true;
    };
  };

  test.each(broken)("%s", async (_name, answerBadly) => {
    const { site, meddler } = await startMeddled("downloadUrl");
    await using _ = site;
    meddler.meddle = answerOnceBy(answerBadly);
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    await expect(
      streamResource(client, uri, { timeouts }).then((stream) =>
        stream.saveTo(join(site.target, "disk.img")),
      ),
    ).rejects.toMatchObject({ name: "SluiceError" });
    expect(await readdir(site.target)).toEqual([]);
    await client.close();
  });

  test.each(broken)(
    "nor does it end as if it were whole, read as a stream: %s",
    async (_name, bad) => {
      const { site, meddler } = await startMeddled("downloadUrl");
      await using _ = site;
      meddler.meddle = answerOnceBy(bad);
      const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
      const reading = async (): Promise<number> => {
        let bytes = 0;
        const { body } = await streamResource(client, uri, { timeouts });
        for await (const chunk of body) bytes += chunk.length;
        return bytes;
      };
      await expect(reading()).rejects.toMatchObject({ name: "SluiceError" });
      await client.close();
    },
  );

  test("the same body, whole, is one", async () => {
    const { site, meddler } = await startMeddled("downloadUrl");
    await using _ = site;
    meddler.meddle = async (exchange) => {
      await passOn(exchange);
      return true;
    };
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    const stream = await streamResource(client, uri, { timeouts });
    const { path } = await stream.saveTo(join(site.target, "disk.img"));
    expect((await readFile(path)).equals(content)).toBe(true);
    await client.close();
  });
});
