import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/internal";
import type { DescribeResource, ResourceMetadata, SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { alice, as, bodyOf, createHouse, headerOf, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

afterEach(() => void vi.useRealTimers());

const open: Partial<SluiceOptions> = { principal: () => alice };
const uri = "files://demo/a.parquet";
const identity = { principal: alice, mayMint: true, maxTtlMs: 3_600_000 };
const files = { "a.parquet": "PAR1\u0000\u0001", "b.html": "<b>bold</b>" };

/** Storage whose versions have no etags. */
const unversioned = (storage: StorageBackend): StorageBackend =>
  wrapBackend(storage, {
    describe: (describeObject) => async (key, options) => {
      const { etag: _etag, ...info } = await describeObject(key, options);
      return info;
    },
    open: (openObject) => async (key, options) => {
      const { info, body } = await openObject(key, options);
      const { etag: _etag, ...rest } = info;
      return { info: rest, body };
    },
  });

function serve(hook: DescribeResource, options: Partial<SluiceOptions> = {}) {
  const asked: string[] = [];
  const house = createHouse({
    ...open,
    storage: createMemoryBackend(files),
    describe(info, of) {
      asked.push(info.key);
      return hook(info, of);
    },
    ...options,
  } as Partial<SluiceOptions>);
  const talk = talkTo(house.sluice);
  const { host } = house.sluice;
  return {
    ...house,
    redeem: (...request: Parameters<House["redeem"]>) => house.redeem(...request),
    asked,
    talk,
    tokenOf: async (of: string) => (await host.mint(identity, host.nameOf(of), undefined))!.token,
    /** What a tool of the author's or the read tool gives. */
    callTool: async (name: string, args: object = {}) => {
      const handler = createMcpHandler(() => {
        const mcp = new McpServer({ name: "test", version: "1.0.0" });
        const inputSchema = z.object({ previewBytes: z.optional(z.number()) });
        mcp.registerTool("link", { inputSchema }, async ({ previewBytes = 2_048 }, ctx) => ({
          content: await house.sluice.resourceLink(uri, { mcp, ctx, previewBytes }),
        }));
        return house.sluice.attach(mcp, { tools: { read: "read_file", list: false, link: false } });
      });
      const params = { name, arguments: args };
      const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
      const headers = {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      };
      const request = new Request("http://127.0.0.1/mcp", { method: "POST", headers, body: "{}" });
      const response = await handler.fetch(request, { parsedBody: body });
      return JSON.parse(/^data: ?(\{.*\})$/m.exec(await response.text())![1]!).result;
    },
  };
}

const all: ResourceMetadata = {
  mimeType: "application/parquet",
  title: "Phase III Genomics Data",
  description: "Complete genomic sequencing data for trial OncoDrug-734.",
  audience: ["assistant"],
  priority: 0.9,
};
const entry = {
  uri,
  name: "a.parquet",
  title: "Phase III Genomics Data",
  description: "Complete genomic sequencing data for trial OncoDrug-734.",
  mimeType: "application/parquet",
  size: 6,
  annotations: { audience: ["assistant"], priority: 0.9, lastModified: expect.any(String) },
};
const auth = as(alice);

describe.each(eras)("%s era", (era) => {
  test("the author's metadata is in lists, reads, streams and downloads", async () => {
    const { talk, redeem, tokenOf } = serve(({ key }) => (key === "a.parquet" ? all : undefined));
    const list = (await talk(era, "resources/list")).message.result;
    expect(list.resources[0]).toMatchObject({ ...entry, streamable: true });
    expect(list.resources[1]).toMatchObject({ name: "b.html", mimeType: "text/html" });
    expect(list.resources[1]).not.toHaveProperty("title");
    const read = (await talk(era, "resources/read", { params: { uri } })).message.result;
    expect(read.contents).toMatchObject([{ mimeType: "application/parquet" }]);
    const { slot } = await talk(era, "resources/stream", { params: { uri } });
    expect(headerOf(slot.reply!, "content-type")).toBe("application/parquet");
    const get = await redeem(await tokenOf(uri), { headers: auth });
    expect(headerOf(get, "content-type")).toBe("application/parquet");
    expect(await bodyOf(get)).toBe(files["a.parquet"]);
    const head = await redeem(await tokenOf(uri), { method: "HEAD", headers: auth });
    expect(headerOf(head, "content-type")).toBe("application/parquet");
    const range = { ...auth, range: "bytes=0-3" };
    const part = await redeem(await tokenOf(uri), { headers: range });
    expect(headerOf(part, "content-type")).toBe("application/parquet");
  });

  test("the type of a download URL and of a redirect is the author's", async () => {
    const byUrl = serve(() => all, { delivery: "downloadUrl" });
    const told = (await byUrl.talk(era, "resources/stream", { params: { uri } })).message.result;
    expect(told.mimeType).toBe("application/parquet");
    const signed: unknown[] = [];
    const storage: StorageBackend = {
      ...createMemoryBackend(files),
      async presign(_key, options) {
        signed.push(options.contentType);
        return { url: "https://store.example.com/a", expiresAt: Date.now() };
      },
    };
    const redirectOrigins = ["https://store.example.com"];
    const redirecting = serve(() => all, { storage, redirectOrigins });
    const { slot } = await redirecting.talk(era, "resources/stream", { params: { uri } });
    expect([slot.reply!.status, signed]).toEqual([302, ["application/parquet"]]);
  });

  test("a resource is octets if the author declares it, whatever storage and the name indicate", async () => {
    const { talk } = serve(() => ({ mimeType: "application/octet-stream" }));
    const params = { uri: "files://demo/b.html" };
    const { slot } = await talk(era, "resources/stream", { params });
    expect(headerOf(slot.reply!, "content-type")).toBe("application/octet-stream");
    const read = (await talk(era, "resources/read", { params })).message.result;
    expect(read.contents[0].mimeType).toBe("application/octet-stream");
    const list = (await talk(era, "resources/list")).message.result;
    expect(list.resources[1].mimeType).toBe("application/octet-stream");
  });

  test("a resource whose author calls it JSON never goes out as the answer itself", async () => {
    const { talk } = serve(() => ({ mimeType: "application/vnd.x+json" }));
    const { slot, message } = await talk(era, "resources/stream", { params: { uri } });
    expect(slot.reply).toBeUndefined();
    expect(message.result.downloadUrl).toBeDefined();
  });

  test("streamable: false marks single resources: read alone gives them [SEP-2532/2.metadata/may-mark-resource]", async () => {
    let streamable = true;
    const { talk, redeem, tokenOf, records } = serve(({ key }) => ({
      streamable: key === "b.html" || streamable,
    }));
    const token = await tokenOf(uri);
    streamable = false;
    const { resources } = (await talk(era, "resources/list")).message.result;
    expect(resources.map((each: any) => each.streamable)).toEqual([undefined, true]);
    expect(JSON.stringify(resources[0])).not.toContain("streamable");
    const { slot } = await talk(era, "resources/stream", { params: { uri } });
    expect([slot.reply, slot.fault]).toMatchObject([
      undefined,
      {
        message: "Stream not supported",
        data: { suggestion: "Use resources/read for this resource" },
      },
    ]);
    expect(records.at(-1)).toMatchObject({ outcome: "denied", reason: "unsupported" });
    expect((await talk(era, "resources/read", { params: { uri } })).message.result).toBeDefined();
    // a URL from before gives nothing any more, nor does it say that there is something
    for (const method of ["GET", "HEAD"] as const)
      expect((await redeem(token, { method, headers: auth })).status).toBe(404);
    const other = { uri: "files://demo/b.html" };
    const { slot: streamed } = await talk(era, "resources/stream", { params: other });
    expect(streamed.reply!.status).toBe(200);
  });

  test.each([
    ["text/x\r\nset-cookie: a=b"],
    ["parquet"],
    [""],
    ["a/b; x"],
    ["text/ü"],
    [7],
    [{}],
    [["text/csv"]],
  ])(
    "a malformed type %o is in no header and no list, and the operator hears of it",
    async (given) => {
      const { talk, redeem, tokenOf, errors } = serve(() => ({ mimeType: given as never }));
      const { slot } = await talk(era, "resources/stream", { params: { uri } });
      expect(headerOf(slot.reply!, "content-type")).toBe("application/octet-stream");
      const get = await redeem(await tokenOf(uri), { headers: auth });
      for (const text of [...slot.reply!.headers, ...get.headers])
        expect(text).toMatch(/^[\x20-\x7e]*$/);
      const { resources } = (await talk(era, "resources/list")).message.result;
      expect(resources[0].mimeType).not.toEqual(given);
      expect(String(errors[0])).toContain(`describe of ${uri}: mimeType`);
    },
  );

  test("parameters of a type are not sent, but the charset of text", async () => {
    for (const [given, sent] of [
      ["Application/Parquet; a=b", "application/parquet"],
      ["text/csv; charset=utf-8; header=present", "text/csv; charset=utf-8"],
    ] as const) {
      const { slot } = await serve(() => ({ mimeType: given })).talk(era, "resources/stream", {
        params: { uri },
      });
      expect(headerOf(slot.reply!, "content-type")).toBe(sent);
    }
  });

  test("malformed members are left out one by one; nothing streams by an invalid mark", async () => {
    const wrong = {
      title: 5,
      description: ["x"],
      audience: ["robot"],
      priority: "high",
      streamable: "no",
      mimeType: "application/parquet",
    };
    const { talk, errors } = serve(({ key }) =>
      key === "a.parquet" ? (wrong as never) : ("text" as never),
    );
    const { resources } = (await talk(era, "resources/list")).message.result;
    expect(resources[0]).toMatchObject({ mimeType: "application/parquet" });
    for (const name of ["title", "description", "streamable"])
      expect(resources[0]).not.toHaveProperty(name);
    expect(resources[0].annotations).toEqual({ lastModified: expect.any(String) });
    expect(errors).toHaveLength(6);
    const { slot } = await talk(era, "resources/stream", { params: { uri } });
    expect(slot.fault!.data.reason).toBe("stream_unsupported");
  });

  test("null is nothing, as a database has it", async () => {
    const none = Object.fromEntries(
      Object.keys({ ...all, streamable: 1 }).map((name) => [name, null]),
    );
    for (const hook of [() => none as never, () => null as never]) {
      const { talk, errors } = serve(hook);
      const { resources } = (await talk(era, "resources/list")).message.result;
      expect(resources[0]).toMatchObject({ streamable: true });
      expect(errors).toEqual([]);
    }
  });

  test("a hook that fails costs a list what it knows and the mark; all else fails", async () => {
    const fault = new Error("table metadata at 10.0.0.7 is gone");
    for (const hook of [
      () => {
        throw fault;
      },
      () => Promise.reject(fault),
    ]) {
      const { talk, errors, redeem, tokenOf } = serve(hook);
      const { resources } = (await talk(era, "resources/list")).message.result;
      expect(resources).toHaveLength(2);
      expect(JSON.stringify(resources)).not.toContain("streamable");
      expect(errors).toEqual([fault, fault]);
      const { slot } = await talk(era, "resources/stream", { params: { uri } });
      expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, "internal"]);
      const read = (await talk(era, "resources/read", { params: { uri } })).message;
      expect(read.error!.data.reason).toBe("internal");
      expect(JSON.stringify([slot.fault, read, resources])).not.toContain("10.0.0.7");
      expect((await redeem(await tokenOf(uri), { headers: auth })).status).toBe(500);
    }
    const coded = serve(() => {
      throw new SluiceError("unavailable", "directory: down");
    });
    const { slot } = await coded.talk(era, "resources/stream", { params: { uri } });
    expect(slot.fault!.data.reason).toBe("busy");
  });

  test("a hook that never answers has 10 s, in a list for all entries together", async () => {
    vi.useFakeTimers();
    const { talk, errors } = serve(() => new Promise(() => {}));
    const listing = talk(era, "resources/list");
    await vi.advanceTimersByTimeAsync(10_000);
    const { resources } = (await listing).message.result;
    expect(resources).toHaveLength(2);
    expect(errors).toMatchObject([{ code: "timeout" }, { code: "timeout" }]);
    const streaming = talk(era, "resources/stream", { params: { uri } });
    await vi.advanceTimersByTimeAsync(10_000);
    const { slot } = await streaming;
    expect([slot.reply, slot.fault!.data.reason]).toEqual([undefined, "busy"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("a hook that takes its time is waited for", async () => {
    const { talk } = serve(async () => {
      await new Promise((resolve) => void setTimeout(resolve, 20));
      return all;
    });
    const { resources } = (await talk(era, "resources/list")).message.result;
    expect(resources[0]).toMatchObject(entry);
  });

  test("the author is asked once for a version in a request, twice where storage names none", async () => {
    for (const [storage, most] of [
      [createMemoryBackend(files), 1],
      [unversioned(createMemoryBackend(files)), 2],
    ] as const) {
      const { talk, redeem, tokenOf, asked } = serve(() => all, { storage });
      const count = async (work: () => Promise<unknown>): Promise<number> => {
        asked.length = 0;
        await work();
        return asked.length;
      };
      const token = await tokenOf(uri);
      const requests: Record<string, () => Promise<unknown>> = {
        stream: () => talk(era, "resources/stream", { params: { uri } }),
        read: () => talk(era, "resources/read", { params: { uri } }),
        GET: () => redeem(token, { headers: auth }),
        HEAD: () => redeem(token, { method: "HEAD", headers: auth }),
        range: () => redeem(token, { headers: { ...auth, range: "bytes=0-3" } }),
      };
      for (const [name, work] of Object.entries(requests)) {
        const times = await count(work);
        expect([name, times >= 1 && times <= most]).toEqual([name, true]);
      }
      // one for each entry
      expect(await count(() => talk(era, "resources/list"))).toBe(2);
    }
  });

  test("the author is not asked about what the caller may not have", async () => {
    for (const decision of ["hide", "deny"] as const) {
      const { talk, asked } = serve(() => all, { access: () => decision });
      await talk(era, "resources/list");
      await talk(era, "resources/read", { params: { uri } });
      await talk(era, "resources/stream", { params: { uri } });
      expect(asked).toEqual([]);
    }
  });
});

describe("links and the read tool", () => {
  test("have the author's metadata, and ask once", async () => {
    const { callTool, asked } = serve(() => all);
    for (const previewBytes of [0, 10]) {
      asked.length = 0;
      const { content } = await callTool("link", { previewBytes });
      expect(content[0]).toMatchObject({
        ...entry,
        type: "resource_link",
        _meta: { [EXTENSION_ID]: { streamable: true } },
      });
      expect(asked).toHaveLength(1);
    }
    asked.length = 0;
    const { content } = await callTool("read_file", { uri });
    expect(content[0].text).toContain("application/parquet");
    expect(content[0].text).toContain("resources/read");
    expect(content[1]).toMatchObject({ ...entry, type: "resource_link" });
    expect(asked).toHaveLength(1);
  });

  test("name no stream for what is not streamed", async () => {
    const { callTool } = serve(() => ({ streamable: false }));
    const link = await callTool("link");
    expect(JSON.stringify(link)).not.toContain("streamable");
    const tool = await callTool("read_file", { uri });
    expect(JSON.stringify(tool)).not.toMatch(/streamable|resources\/stream/);
  });
});

test("a mount's own hook comes in place of that of the Sluice", async () => {
  const { sluice } = createHouse({
    ...open,
    storage: undefined as never,
    baseUri: undefined as never,
    describe: () => ({ title: "of all" }),
    mounts: [
      { baseUri: "a://x/", storage: createMemoryBackend({ one: "1" }) },
      {
        baseUri: "b://x/",
        storage: createMemoryBackend({ two: "2" }),
        describe: () => ({ title: "of b", streamable: false }),
      },
    ],
  });
  const { resources } = (await talkTo(sluice)("modern", "resources/list")).message.result;
  expect(resources).toMatchObject([
    { uri: "a://x/one", title: "of all", _meta: { [EXTENSION_ID]: { streamable: true } } },
    { uri: "b://x/two", title: "of b" },
  ]);
  expect(resources[1]).not.toHaveProperty("streamable");
});

test("packages beside a Sluice cannot give away what is not streamed, either", async () => {
  const { sluice } = serve(() => ({ streamable: false }));
  const { host } = sluice;
  const asked = { principal: alice, name: host.nameOf(uri) };
  const { key, storage } = await host.authorize({ ...asked, action: "stream" });
  for (const give of [storage.describe(key), storage.open(key)])
    await expect(give).rejects.toMatchObject({ code: "unsupported" });
  const reading = await host.authorize({ ...asked, action: "read" });
  expect((await reading.storage.describe(reading.key)).size).toBe(6);
});

test("a walk over a folder leaves out what is not streamed", async () => {
  const { sluice } = serve(({ key }) => ({ streamable: key !== "a.parquet" }));
  const { signal } = new AbortController();
  const opened: Record<string, boolean> = {};
  const walk = sluice.host.walk({ uri: "files://demo/", principal: alice, signal });
  for await (const object of walk) opened[object.info.key] = (await object.open()) !== undefined;
  expect(opened).toEqual({ "a.parquet": false, "b.html": true });
});
