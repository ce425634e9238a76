// @module-tag slow
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { McpServer } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/internal";
import { discardReply } from "@sluice/server/internal";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { createS3Backend } from "@sluice/storage-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createHouse, headerOf } from "../../packages/server/test/redeeming.ts";
import { talkTo } from "../../packages/server/test/talking.ts";
import { startS3StandIn } from "../../packages/storage-s3/test/stand-in/stand-in.ts";
import { binaryKinds, textKinds } from "../bed/text-kinds.ts";

const encoder = new TextEncoder();
const files: Record<string, Uint8Array> = {
  ...Object.fromEntries(
    Object.entries(textKinds).map(([name, text]) => [name, encoder.encode(text)]),
  ),
  ...binaryKinds,
};
const deep = process.env["SLUICE_DEEP"] !== undefined;
if (!deep) console.log("kinds of text: each on every surface of every store is for SLUICE_DEEP=1");
/** The surfaces share what decides on the type: every sixth kind shows that they ask it. */
const onEverySurface = (at: number): boolean => deep || at % 6 === 0;
/** Memory has all of them; what differs elsewhere is how types are stored and listed. */
const someOf = (names: readonly string[], kind: string): readonly string[] =>
  names.filter((_, at) => deep || kind === "memory" || at % 12 === 0);
const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };
const base = "files://demo/";

interface Store {
  readonly storage: StorageBackend;
  dispose(): Promise<void>;
}

const stores: Record<string, () => Promise<Store>> = {
  async fs() {
    const root = await mkdtemp(join(tmpdir(), "sluice-kinds-"));
    await Promise.all(
      Object.entries(files).map(([name, bytes]) => writeFile(join(root, name), bytes)),
    );
    return {
      storage: createFsBackend({ root, dotfiles: true }),
      dispose: () => rm(root, { recursive: true }),
    };
  },
  async memory() {
    return { storage: createMemoryBackend(files), dispose: async () => {} };
  },
  "s3 with binary/octet-stream": () => s3Store("binary/octet-stream"),
  "s3 without a type": () => s3Store(undefined),
};

async function s3Store(contentType: string | undefined): Promise<Store> {
  const standIn = await startS3StandIn();
  const { bucket, endpoint, credentials } = standIn;
  for (const [key, bytes] of Object.entries(files))
    standIn.put(key, bytes, contentType === undefined ? {} : { contentType });
  const storage = createS3Backend({ bucket, endpoint, credentials });
  return {
    storage,
    async dispose() {
      await storage.close?.();
      await standIn[Symbol.asyncDispose]();
    },
  };
}

/** Everything that a server says of one resource: its content, and its type on each surface. */
function askEverywhere(storage: StorageBackend) {
  const house = createHouse({ ...open, storage, pageSize: 1_000, exactTypes: true });
  const { sluice } = house;
  const talk = talkTo(sluice, (mcp: McpServer) => {
    mcp.registerTool(
      "link",
      { inputSchema: z.object({ uri: z.string() }) },
      async ({ uri }, ctx) => ({
        content: await sluice.resourceLink(uri, { mcp, ctx, previewBytes: 16 }),
      }),
    );
  });
  const direct = talkTo(createHouse({ ...open, storage, delivery: "direct" }).sluice);
  const linked = talkTo(sluice);
  const wholes = new Map<string, ReturnType<typeof read>>();
  async function read(name: string, asked: object = {}) {
    const params = { uri: base + encodeURIComponent(name), _meta: { [EXTENSION_ID]: asked } };
    const { result, error } = (await talk("modern", "resources/read", { params })).message;
    return { error, ...result?.contents[0] };
  }
  /** Reads everything of it, once. */
  function readWhole(name: string): ReturnType<typeof read> {
    const whole = wholes.get(name) ?? read(name);
    wholes.set(name, whole);
    return whole;
  }
  return {
    async list(): Promise<ReadonlyMap<string, string | undefined>> {
      const { result } = (await talk("modern", "resources/list")).message;
      return new Map(result.resources.map(({ name, mimeType }: any) => [name, mimeType]));
    },
    read,
    readWhole,
    async types(name: string): Promise<Record<string, string | undefined>> {
      const params = { uri: base + encodeURIComponent(name) };
      const { result } = (await linked("modern", "resources/stream", { params, hasSlot: false }))
        .message;
      const token = result.downloadUrl.split("/").at(-1);
      const headers = { authorization: "i s c" };
      const got = await house.redeem(token, { headers });
      discardReply(got);
      const { slot } = await direct("modern", "resources/stream", { params });
      if (slot.reply) discardReply(slot.reply);
      const call = { name: "link", arguments: { uri: params.uri } };
      const tool = (
        await talk("modern", "tools/call", { params: call, headers: { "mcp-name": "link" } })
      ).message;
      return {
        read: (await readWhole(name)).mimeType,
        part: (await read(name, { range: "bytes 1-" })).mimeType,
        stream: result.mimeType,
        url: headerOf(got, "content-type"),
        // JSON is never the direct answer
        direct: slot.reply ? headerOf(slot.reply, "content-type") : undefined,
        link: tool.result?.content[0].mimeType,
      };
    },
  };
}

describe.each(Object.keys(stores))("over %s", (kind) => {
  let store: Store;
  let asked: ReturnType<typeof askEverywhere>;
  beforeAll(async () => {
    store = await stores[kind]!();
    asked = askEverywhere(store.storage);
  });
  afterAll(() => store?.dispose());

  test("each everyday kind of text is read as text, whole, in parts and by lines", async () => {
    expect(Object.keys(textKinds).length).toBeGreaterThanOrEqual(80);
    const wrong: unknown[] = [];
    for (const [at, name] of someOf(Object.keys(textKinds), kind).entries()) {
      const text = textKinds[name];
      const ranges = deep ? ["lines 1-", "bytes 0-"] : [at % 2 ? "lines 1-" : "bytes 0-"];
      const read = [await asked.readWhole(name)];
      for (const range of ranges) read.push(await asked.read(name, { range }));
      if (read.some((content) => content.text !== text)) wrong.push([name, ...read]);
    }
    expect(wrong).toEqual([]);
  });

  test("bytes that are no text are a blob, whatever their name, and have no lines", async () => {
    for (const name of someOf(Object.keys(binaryKinds), kind)) {
      const bytes = binaryKinds[name]!;
      const whole = await asked.readWhole(name);
      expect([name, whole.blob]).toEqual([name, Buffer.from(bytes).toString("base64")]);
      if (name === "late.json") continue;
      expect([
        name,
        (await asked.read(name, { range: "lines 1-" })).error?.data.suggestion,
      ]).toEqual([name, expect.stringContaining("Lines are for text")]);
    }
  });

  test("list, read, parts, stream, direct bytes and links say one type of one resource", async () => {
    const listed = await asked.list();
    expect(listed.size).toBe(Object.keys(files).length);
    for (const [at, name] of someOf(Object.keys(files), kind).entries()) {
      const whole = (await asked.readWhole(name)).mimeType;
      // a listing says the type, or nothing
      expect([undefined, whole]).toContain(listed.get(name));
      if (kind === "memory" && !onEverySurface(at)) continue;
      const { read, stream, link, ...others } = await asked.types(name);
      expect(read).toBeDefined();
      const said = [...Object.values(others), listed.get(name)];
      expect([name, { stream, link, said }]).toEqual([
        name,
        { stream: read, link: read, said: said.map((type) => type && read) },
      ]);
    }
  });
});

test("a type that storage names is the type, and its listing says it or nothing", async () => {
  const storage = createMemoryBackend();
  storage.put("a.txt", "x", { contentType: "text/markdown" });
  storage.put("b.txt", "x", { contentType: "image/png" });
  storage.put("c.ts", "export {};", { contentType: "video/mp2t" });
  storage.put("d.ts", binaryKinds["video.ts"]!, { contentType: "video/mp2t" });
  const asked = askEverywhere(storage);
  expect(Object.fromEntries(await asked.list())).toEqual({
    "a.txt": "text/markdown",
    "b.txt": "image/png",
  });
  expect(await asked.read("a.txt")).toMatchObject({ mimeType: "text/markdown", text: "x" });
  expect(await asked.read("b.txt")).toMatchObject({ mimeType: "image/png", blob: "eA==" });
  expect(await asked.read("c.ts")).toMatchObject({
    mimeType: "text/typescript",
    text: "export {};",
  });
  expect(await asked.read("d.ts")).toMatchObject({
    mimeType: "video/mp2t",
    blob: expect.any(String),
  });

  const untyped = wrapBackend(storage, {
    list: (inner) => async (options) => {
      const page = await inner(options);
      const objects = page.objects.map(({ contentType: _type, ...info }) => info);
      return { ...page, objects, untyped: true };
    },
  });
  expect([...(await askEverywhere(untyped).list()).values()]).toEqual(Array(4).fill(undefined));
});
