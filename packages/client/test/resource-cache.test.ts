import * as portable from "../src/internal.ts";
import * as portableCache from "../src/cache.ts";
import * as node from "@sluice/client/internal";
import * as nodeCache from "@sluice/client/cache";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createCache } from "../src/cache/resource-cache.ts";
import { startFileServer, type ServedFile } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import type { RawServer } from "./raw-server.ts";

const uri = "files://demo/notes.txt";
let server: RawServer;
let served: ServedFile;
/** Requests that the server got: calls and downloads. */
let requests = 0;

beforeEach(async () => {
  requests = 0;
  served = {
    content: Buffer.from("first"),
    etag: '"v1"',
    before() {
      requests += 1;
      return false;
    },
  };
  server = await startFileServer(served);
});
afterEach(async () => {
  vi.useRealTimers();
  await server[Symbol.asyncDispose]();
});

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const options = { trustedOrigins: [] };

describe.each([
  ["node", nodeCache, node],
  ["portable", portableCache, portable],
])("%s entry", (_, { createResourceCache }, { withStreaming }) => {
  const createHere = (more: object = {}) =>
    createResourceCache(createRawClient(server.url, withStreaming()), more);

  test("within its time the server is not asked; after it, it is, and sends nothing again [ARTICLE/10.1/client-cache]", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const cache = createHere({ ttlMs: 10_000 });
    const first = await cache.read(uri, options);
    expect([text(first.bytes), first.source, requests]).toEqual(["first", "fetched", 1]);
    expect((await cache.read(uri, options)).source).toBe("kept");
    expect(requests).toBe(1);
    vi.advanceTimersByTime(10_000);
    const later = await cache.read(uri, options);
    expect([text(later.bytes), later.source]).toEqual(["first", "revalidated"]);
    expect((await cache.read(uri, options)).source).toBe("kept");
  });

  test("the server's own time counts before the caller's, for a day at most", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    served.ttlMs = 5_000;
    const cache = createHere({ ttlMs: 60_000 });
    const byUrl = { ...options, prefer: ["downloadUrl" as const] };
    await cache.read(uri, byUrl);
    vi.advanceTimersByTime(4_999);
    expect((await cache.read(uri, byUrl)).source).toBe("kept");
    vi.advanceTimersByTime(1);
    served.ttlMs = 10 * 86_400_000;
    expect((await cache.read(uri, byUrl)).source).toBe("revalidated");
    vi.advanceTimersByTime(86_400_000);
    expect((await cache.read(uri, byUrl)).source).toBe("revalidated");
  });

  test("another version is fetched, never mixed up with the kept one", async () => {
    const cache = createHere();
    await cache.read(uri, options);
    served.content = Buffer.from("second");
    served.etag = '"v2"';
    const { bytes, source, facts } = await cache.read(uri, options);
    expect([text(bytes), source, facts.etag]).toEqual(["second", "fetched", "v2"]);
  });

  test("without a strong entity tag nothing counts as the same", async () => {
    const cache = createHere();
    for (const etag of [undefined, 'W/"v1"']) {
      served.etag = etag;
      cache.clear();
      await cache.read(uri, options);
      expect((await cache.read(uri, options)).source).toBe("fetched");
    }
  });

  test("a resource that is too large is refused unread, and its metadata is known all the same", async () => {
    const cache = createHere({ maxResourceBytes: 4, ttlMs: 60_000 });
    await expect(cache.read(uri, options)).rejects.toMatchObject({ code: "too_large" });
    expect(await cache.describe(uri, options)).toMatchObject({ uri, size: 5, etag: "v1" });
    const before = requests;
    expect((await cache.describe(uri, options)).size).toBe(5);
    expect(requests).toBe(before);
  });

  test("looking again at the facts keeps the content of the same version", async () => {
    const cache = createHere();
    await cache.read(uri, options);
    await cache.describe(uri, options);
    expect((await cache.read(uri, options)).source).toBe("revalidated");
  });

  test("a forgotten resource is fetched, even if it was forgotten during its fetch", async () => {
    const cache = createHere({ ttlMs: 60_000 });
    await cache.read(uri, options);
    cache.invalidate(uri);
    expect((await cache.read(uri, options)).source).toBe("fetched");
    cache.invalidate(uri);
    const late = cache.read(uri, options);
    cache.invalidate(uri);
    await late;
    expect((await cache.read(uri, options)).source).toBe("fetched");
    const later = cache.read("files://demo/other.txt", options);
    cache.clear();
    await later;
    expect((await cache.read("files://demo/other.txt", options)).source).toBe("fetched");
  });

  test("a cached resource is not given to a caller that accepts less, or that aborted", async () => {
    const cache = createHere({ ttlMs: 60_000 });
    await cache.read(uri, options);
    for (const ask of ["read", "describe"] as const) {
      const signal = AbortSignal.abort(new Error("enough"));
      await expect(cache[ask](uri, { ...options, signal })).rejects.toBe(signal.reason);
      await expect(cache[ask](uri, { ...options, maxStreamBytes: 4 })).rejects.toMatchObject({
        code: "too_large",
      });
      expect(requests).toBeGreaterThan(1);
    }
    expect(await cache.read(uri, { ...options, maxStreamBytes: 5 })).toMatchObject({
      source: "kept",
    });
  });

  test("a caller's changes to its bytes reach no other caller", async () => {
    const cache = createHere({ ttlMs: 60_000 });
    for (let n = 0; n < 3; n++) {
      const { bytes } = await cache.read(uri, options);
      expect(text(bytes)).toBe("first");
      bytes.fill(0);
    }
  });

  test("the number of resources and of bytes is bounded; what was not used for longest goes first", async () => {
    const cache = createHere({ ttlMs: 60_000, maxResources: 2 });
    const sourceOf = async (n: number) => (await cache.read(`files://demo/${n}`, options)).source;
    for (const n of [1, 2, 1, 3]) await sourceOf(n);
    expect([await sourceOf(1), await sourceOf(3), await sourceOf(2)]).toEqual([
      "kept",
      "kept",
      "fetched",
    ]);
    served.content = Buffer.alloc(1_000_000, "x");
    const small = createHere({ ttlMs: 60_000, maxBytes: 2_500_000, maxResources: 100 });
    const again = async (n: number) => (await small.read(`files://demo/${n}`, options)).source;
    for (const n of [1, 2, 3]) await again(n);
    expect([await again(3), await again(2), await again(1)]).toEqual(["kept", "kept", "fetched"]);
  });

  test("a failure is not kept", async () => {
    const cache = createHere({ ttlMs: 60_000 });
    let isDown = true;
    served.before = (_req, res) => {
      if (!isDown) return false;
      res.writeHead(404).end();
      return true;
    };
    await expect(cache.read(uri, options)).rejects.toMatchObject({ code: "not_found" });
    isDown = false;
    expect((await cache.read(uri, options)).source).toBe("fetched");
  });
});

test("an answer that comes late does not replace that of a later question", async () => {
  const asked: ((version: number) => void)[] = [];
  const cache = createCache(
    async () => {
      const version = await new Promise<number>((resolve) => asked.push(resolve));
      const body = new Blob([`${version}`]).stream();
      return { ...facts, etag: `"${version}"`, body };
    },
    { ttlMs: 60_000 },
  );
  const first = cache.read(uri);
  const second = cache.read(uri);
  await expect.poll(() => asked).toHaveLength(2);
  asked[1]!(2);
  expect(text((await second).bytes)).toBe("2");
  asked[0]!(1);
  expect(text((await first).bytes)).toBe("1");
  expect(text((await cache.read(uri)).bytes)).toBe("2");
});

const facts = {
  uri,
  mode: "direct",
  mimeType: "text/plain",
  name: "notes.txt",
  vouched: true,
  size: 1,
} as const;
