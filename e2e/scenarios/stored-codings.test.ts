import * as zlib from "node:zlib";
import { EXTENSION_ID } from "@sluice/core/internal";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { createS3Backend } from "@sluice/storage-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { discardReply } from "@sluice/server/internal";
import { createHouse, headerOf } from "../../packages/server/test/redeeming.ts";
import { talkTo } from "../../packages/server/test/talking.ts";
import { clientFor, sharedAzurite } from "../../packages/storage-azure-blob/test/azurite.ts";
import { startS3StandIn } from "../../packages/storage-s3/test/stand-in/stand-in.ts";

const text = Array.from({ length: 5_000 }, (_, line) => `Zeile ${line} für alle\n`).join("");
const bytes = Buffer.from(text);
const noise = Buffer.from(Array.from({ length: 30_000 }, (_, at) => (at * at * 31) % 256));
const { gzipSync, deflateSync, brotliCompressSync } = zlib;
// Node.js has it from 22.15
const { zstdCompressSync } = zlib as { zstdCompressSync?: (bytes: Buffer) => Buffer };

interface Coded {
  readonly stored: Uint8Array;
  readonly coding: string;
}

const readable: Record<string, Coded> = {
  "gzip.txt": { stored: gzipSync(bytes), coding: "gzip" },
  "x-gzip.log": { stored: gzipSync(bytes), coding: "X-GZIP" },
  "deflate.txt": { stored: deflateSync(bytes), coding: "deflate" },
  "br.txt": { stored: brotliCompressSync(bytes), coding: "br" },
  "twice.txt": { stored: brotliCompressSync(gzipSync(bytes)), coding: "gzip, br" },
  "identity.txt": { stored: bytes, coding: "identity" },
  "charset.txt": { stored: bytes, coding: "UTF-8" },
  "label.txt": { stored: bytes, coding: "base64" },
  "members.txt": {
    stored: Buffer.concat([gzipSync(bytes.subarray(0, 1_000)), gzipSync(bytes.subarray(1_000))]),
    coding: "gzip",
  },
  "no-name-that-tells": { stored: gzipSync(bytes), coding: "gzip" },
  ...(zstdCompressSync && { "zstd.txt": { stored: zstdCompressSync(bytes), coding: "zstd" } }),
};
if (!zstdCompressSync) console.log("codings: zstd is for Node.js from 22.15");

const refused: Record<string, Coded> = {
  "compress.txt": { stored: bytes, coding: "compress" },
  "mislabelled.txt": { stored: bytes, coding: "gzip" },
  "not-br.txt": { stored: noise, coding: "br" },
  "cut.txt": { stored: gzipSync(bytes).subarray(0, -100), coding: "gzip" },
  "four.txt": { stored: bytes, coding: "gzip, gzip, gzip, gzip" },
};

const maxReadBytes = 256 * 1024;
const bomb: Coded = { stored: gzipSync(Buffer.alloc(8 * 2 ** 20)), coding: "gzip" };
const all: Record<string, Coded> = {
  ...readable,
  ...refused,
  "noise.bin": { stored: gzipSync(noise), coding: "gzip" },
  "bomb.txt": bomb,
  "bomb-twice.txt": { stored: gzipSync(bomb.stored), coding: "gzip, gzip" },
};

const deep = process.env["SLUICE_DEEP"] !== undefined;
if (!deep) console.log("codings: each of them in each store is for SLUICE_DEEP=1");
/** Memory has all of them; stores differ in how they keep and tell a coding. */
const someOf = (codeds: Record<string, Coded>, kind: string): readonly string[] =>
  Object.keys(codeds).filter((_, at) => deep || kind === "memory" || at % 4 === 0);

interface Store {
  readonly storage: StorageBackend;
  dispose(): Promise<void>;
}

const stores: Record<string, () => Promise<Store>> = {
  async memory() {
    const storage = createMemoryBackend();
    for (const [name, { stored, coding }] of Object.entries(all))
      storage.put(name, stored, { contentEncoding: coding });
    return { storage, dispose: () => storage.close() };
  },
  async s3() {
    const standIn = await startS3StandIn();
    for (const [name, { stored, coding }] of Object.entries(all))
      standIn.put(name, stored, { contentEncoding: coding, contentType: "binary/octet-stream" });
    const { bucket, endpoint, credentials } = standIn;
    const storage = createS3Backend({ bucket, endpoint, credentials });
    return {
      storage,
      async dispose() {
        await storage.close?.();
        await standIn[Symbol.asyncDispose]();
      },
    };
  },
  async "azure-blob"() {
    const azurite = await sharedAzurite();
    const container = await azurite.createContainer();
    for (const [name, { stored, coding }] of Object.entries(all))
      await container.getBlockBlobClient(name).upload(stored, stored.byteLength, {
        blobHTTPHeaders: { blobContentEncoding: coding },
      });
    const storage = createAzureBlobBackend({ client: clientFor(container.url) });
    return {
      storage,
      async dispose() {
        await storage.close?.();
        await container.delete();
      },
    };
  },
};

function reading(storage: StorageBackend) {
  const { sluice, errors, records } = createHouse({
    storage,
    maxReadBytes,
    delivery: "direct",
    principal: () => ({ issuer: "i", subject: "s", clientId: "c" }),
  });
  const talk = talkTo(sluice);
  return {
    errors,
    records,
    async read(name: string, asked: object = {}) {
      const params = { uri: `files://demo/${name}`, _meta: { [EXTENSION_ID]: asked } };
      const { result, error } = (await talk("modern", "resources/read", { params })).message;
      const content = result?.contents[0];
      return { error, ...content, meta: content?._meta?.[EXTENSION_ID] };
    },
    async stream(name: string) {
      const params = { uri: `files://demo/${name}` };
      const { slot } = await talk("modern", "resources/stream", { params });
      const { reply } = slot;
      const headers = ["content-type", "content-encoding"].map((field) => headerOf(reply!, field));
      discardReply(reply!);
      return headers;
    },
  };
}

describe.each(Object.keys(stores))("objects that %s stores with a content coding", (kind) => {
  let store: Store;
  let house: ReturnType<typeof reading>;
  beforeAll(async () => {
    store = await stores[kind]!();
    house = reading(store.storage);
  }, 60_000);
  afterAll(() => store?.dispose());

  test.each(someOf(readable, kind))("%s is read as the text that it is", async (name) => {
    const whole = await house.read(name);
    expect([whole.text === text, whole.mimeType]).toEqual([true, "text/plain"]);
    const lines = await house.read(name, { range: "lines 4000-4001" });
    expect(lines.text).toBe("Zeile 3999 für alle\nZeile 4000 für alle\n");
    expect(lines.meta).toMatchObject({ lines: "lines 4000-4001", next: "lines 4002-" });
    // behind what is stored, for all but one
    const part = await house.read(name, { range: `bytes ${bytes.length - 21}-` });
    expect(part.text).toBe("Zeile 4999 für alle\n".slice(-20));
    expect(part.meta.next).toBeUndefined();
    const { error } = await house.read(name, { range: `bytes ${bytes.length}-` });
    expect(error.data.suggestion).toContain(`${bytes.length} bytes`);
  });

  test("parts side by side are the whole", async () => {
    let range: string | undefined = "bytes 0-49999";
    let joined = "";
    while (range !== undefined) {
      const part = await house.read("br.txt", { range });
      joined += part.text;
      range = part.meta.next;
    }
    expect(joined === text).toBe(true);
  });

  test("bytes are a blob of what was coded, and stay coded in a stream", async () => {
    const { blob } = await house.read("noise.bin");
    expect(noise.equals(Buffer.from(blob, "base64"))).toBe(true);
    expect(await house.stream("noise.bin")).toEqual(["application/octet-stream", "gzip"]);
    expect(await house.stream("no-name-that-tells")).toEqual(["text/plain", "gzip"]);
  });

  test("a stream names all codings of what it carries, and nothing that is no coding", async () => {
    expect(await house.stream("twice.txt")).toEqual(["text/plain", "gzip, br"]);
    for (const name of ["identity.txt", "charset.txt", "label.txt"])
      expect(await house.stream(name)).toEqual(["text/plain", undefined]);
  });

  test.each(someOf(refused, kind))("%s is refused, with advice to stream it", async (name) => {
    for (const asked of [{}, { range: "lines 4900-" }, { range: `bytes ${bytes.length - 10}-` }]) {
      const { error, text: given } = await house.read(name, asked);
      expect([given, error?.data.suggestion]).toEqual([
        undefined,
        expect.stringContaining("resources/stream"),
      ]);
    }
    expect(house.errors).toEqual([]);
  });

  test.each(["bomb.txt", "bomb-twice.txt"])("%s ends at the limit of a read", async (name) => {
    const { error } = await house.read(name);
    expect(error.data.reason).toBe("too_large");
    // the start of it is no more than that
    expect((await house.read(name, { range: "bytes 0-9" })).blob).toBe("AAAAAAAAAAAAAA==");
  });
});

test("negative control: bytes that are given as they are stored are detected", () => {
  const asStored = Object.values(readable).filter(({ stored }) => bytes.equals(stored));
  expect(asStored.map(({ coding }) => coding)).toEqual(["identity", "UTF-8", "base64"]);
});
