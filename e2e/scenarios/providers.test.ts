/**
 * Providers over real HTTP: whatever goes wrong while a resource is made, no client takes a part of it for the whole.
 * @module
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import type { Client } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";
import type { ClientStreaming, RevisionKind } from "@sluice/core/internal";
import type { ProviderOptions, ProvideRequest, ClientLimits } from "@sluice/server";
import { describe, expect, test, vi } from "vitest";
import { connect } from "../bed/clients.ts";
import { call, send, streamRequest, type RawAnswer } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";
import { countDescriptors } from "../bed/watch.ts";

const eras: readonly RevisionKind[] = ["legacy", "modern"];
const deep = process.env["SLUICE_DEEP"] !== undefined;
const text = "0123456789".repeat(20_000);
const bytes = Buffer.from(text);

/** How many handlers are at work. */
let running = 0;

async function* made(
  { signal }: ProvideRequest,
  { until = bytes.byteLength, atLast }: { until?: number; atLast?: () => unknown } = {},
): AsyncGenerator<Uint8Array> {
  running += 1;
  try {
    for (let at = 0; at < until; at += 30_000) {
      signal.throwIfAborted();
      yield bytes.subarray(at, Math.min(at + 30_000, until));
      await wait(0);
    }
    await atLast?.();
  } finally {
    running -= 1;
  }
}

const described = (): { size: number } => ({ size: bytes.byteLength });

/** Ways in which a provider fails after it began. */
const faults: Readonly<Record<string, ProviderOptions>> = {
  "throws before the first byte": {
    open: () => {
      throw new Error("no such table");
    },
  },
  "throws in the middle": {
    open: (request) =>
      made(request, {
        until: 90_000,
        atLast: () => Promise.reject(new Error("the cursor is gone")),
      }),
  },
  "stalls in the middle": {
    open: (request) =>
      made(request, { until: 90_000, atLast: () => once(request.signal, "abort") }),
    idleMs: 100,
  },
  "never answers": { open: () => new Promise(() => {}), idleMs: 100 },
  "ends before the size that it told": {
    open: (request) => made(request, { until: 90_000 }),
    describe: described,
  },
  "goes on behind the size that it told": {
    open: (request) => made(request),
    describe: () => ({ size: 90_000 }),
  },
  "makes more than its limit": { open: (request) => made(request), maxBytes: 100_000 },
  "gives what is no bytes": {
    open: async function* (request) {
      yield* made(request, { until: 90_000 });
      yield 7 as never;
    },
  },
  "is a process that fails": {
    open: () =>
      spawn(process.execPath, [
        "-e",
        "process.stdout.write('x'.repeat(90000)); process.exitCode = 3",
      ]),
  },
  "is a process that is not there": { open: () => spawn("/no/such/program") },
};

async function startProviding(
  providers: Readonly<Record<string, ProviderOptions>>,
  limits: ClientLimits = {},
): Promise<Site> {
  const site = await startSite({
    sluice: { limits: { streams: limits }, onError: () => {}, onWarning: () => {} },
  });
  for (const [uri, provider] of Object.entries(providers)) site.sluice.provide(uri, provider);
  return site;
}

/** What came of `resources/stream`, followed to the bytes; `undefined` where the connection broke. */
async function fetchBytes(
  site: Site,
  uri: string,
  { era = "modern", streaming = {} }: { era?: RevisionKind; streaming?: ClientStreaming } = {},
): Promise<RawAnswer | undefined> {
  try {
    const answer = await call(site.url, "resources/stream", { uri }, { era, streaming });
    const url = answer.message?.result?.["downloadUrl"];
    return typeof url === "string" ? await send("GET", url) : answer;
  } catch {
    return undefined;
  }
}

const isWhole = (answer: RawAnswer | undefined): boolean =>
  answer?.status === 200 && answer.message === undefined;

describe.each(Object.entries(faults))("a provider that %s", (_name, provider) => {
  test.each(eras)("is an error, never a short file with a clean end (%s)", async (era) => {
    await using site = await startProviding({ "made://site/it.bin": provider });
    for (const prefer of ["direct", "downloadUrl"] as const) {
      const answer = await fetchBytes(site, "made://site/it.bin", {
        era,
        streaming: { prefer: [prefer] },
      });
      expect(isWhole(answer)).toBe(false);
    }
    await vi.waitFor(() => expect(running).toBe(0));
  });

  test("is an error of our client, too", async () => {
    await using site = await startProviding({ "made://site/it.bin": provider });
    const client = await connect("SDK v2, modern", site.url);
    await expect(countBytes(client, "made://site/it.bin")).rejects.toMatchObject({
      code: expect.any(String),
    });
    await client.close();
  });
});

async function countBytes(client: Client, uri: string): Promise<number> {
  const stream = await streamResource(client, uri, { timeouts: { pauseScale: 0 } });
  let count = 0;
  for await (const chunk of stream.body) count += chunk.byteLength;
  return count;
}

test("negative control: a provider that ends early and declared no size is taken for whole", async () => {
  await using site = await startProviding({
    "made://site/it.bin": { open: (request) => made(request, { until: 90_000 }) },
  });
  expect(isWhole(await fetchBytes(site, "made://site/it.bin"))).toBe(true);
});

const transfers = deep ? 10_000 : 50;

test(
  `${transfers} mixed transfers leave no handler, descriptor, listener or place behind`,
  { tags: "slow", timeout: deep ? 600_000 : 60_000 },
  async () => {
    await using site = await startProviding(
      {
        "made://site/whole.bin": { open: (request) => made(request), describe: described },
        "made://site/unknown.bin": { open: (request) => made(request) },
        "made://site/rewound.bin": {
          open: (request) => made(request),
          describe: () => ({ size: bytes.byteLength, version: "1" }),
          rewind: true,
        },
        "made://site/broken.bin": faults["throws in the middle"]!,
        "made://site/short.bin": faults["ends before the size that it told"]!,
      },
      { perProcess: 16 },
    );
    const names = ["whole", "unknown", "rewound", "broken", "short"];
    const before = countDescriptors();
    let wholes = 0;
    for (let n = 0; n < transfers; n += 10) {
      const uris = Array.from(
        { length: 10 },
        (_, at) => `made://site/${names[(n / 10 + at) % names.length]}.bin`,
      );
      const answers = await Promise.all(
        uris.map((uri, at) =>
          at % 4 === 3
            ? leaveEarly(site, uri)
            : fetchBytes(site, uri, { streaming: { prefer: [at % 2 ? "direct" : "downloadUrl"] } }),
        ),
      );
      for (const answer of answers)
        if (isWhole(answer)) wholes += Number(answer!.bytes.equals(bytes));
    }
    expect(wholes).toBeGreaterThan(transfers / 4);
    await vi.waitFor(() => expect(running).toBe(0), { timeout: 10_000 });
    // most that this process takes at once: no place was kept
    const streams = Array.from({ length: 12 }, () => fetchBytes(site, "made://site/whole.bin"));
    expect((await Promise.all(streams)).every(isWhole)).toBe(true);
    const after = (): number => countDescriptors() - before;
    await vi.waitFor(() => expect(after()).toBeLessThan(20), { timeout: 20_000 });
  },
);

/** Reads a little, and goes. */
async function leaveEarly(site: Site, uri: string): Promise<undefined> {
  const leaving = new AbortController();
  const { signal } = leaving;
  const answer = await fetch(site.url, { ...streamRequest(uri), signal });
  await answer.body?.getReader().read();
  leaving.abort();
  return undefined;
}

test.each(["video/mp4", "application/json"])(
  "a client of ours gets %s from the URL that a provider gives, at once or behind a download URL",
  async (mimeType) => {
    const inner = createServer((_request, response) => {
      response.setHeader("content-type", mimeType).end(bytes);
    }).listen(0, "127.0.0.1");
    await once(inner, "listening");
    const origin = `http://127.0.0.1:${(inner.address() as AddressInfo).port}`;
    await using site = await startProviding({
      "made://site/it.bin": {
        open: () => ({ url: `${origin}/it?sig=1`, expiresAt: Date.now() + 60_000 }),
        redirectOrigins: [origin],
        mimeType,
      },
    });
    const client = await connect("SDK v2, modern", site.url);
    for (const prefer of ["direct", "downloadUrl"] as const) {
      const stream = await streamResource(client, "made://site/it.bin", {
        trustedOrigins: [origin],
        prefer: [prefer],
      });
      let count = 0;
      for await (const chunk of stream.body) count += chunk.byteLength;
      expect(count).toBe(bytes.byteLength);
    }
    await client.close();
    inner.close();
  },
);
