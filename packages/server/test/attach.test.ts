import { gzipSync } from "node:zlib";
import { McpServer, requireScopes, ResourceTemplate } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/internal";
import type { AccessRule } from "@sluice/server";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };
const text = (uri: URL) => ({ contents: [{ uri: uri.href, text: `own ${uri.href}` }] });
const hidesA: AccessRule = (_principal, uri) => (uri.endsWith("a.bin") ? "hide" : "allow");
const onePerPage = (storage: StorageBackend): StorageBackend =>
  wrapBackend(storage, { list: (list) => (options) => list({ ...options, limit: 1 }) });
const marked = { [EXTENSION_ID]: { streamable: true } };

describe.each(eras)("%s era", (era) => {
  test("storage is listed page by page, with the marks of streamable resources", async () => {
    const storage = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
    const { sluice } = createHouse({ ...open, storage: onePerPage(storage) });
    const talk = talkTo(sluice);
    const first = (await talk(era, "resources/list")).message.result;
    expect(first.resources).toMatchObject([
      {
        uri: "files://demo/a.bin",
        name: "a.bin",
        size: 10,
        mimeType: "application/octet-stream",
        streamable: true,
        _meta: { [EXTENSION_ID]: { streamable: true, etag: expect.stringMatching(/^".+"$/) } },
      },
    ]);
    const { nextCursor: cursor } = first;
    const second = (await talk(era, "resources/list", { params: { cursor } })).message.result;
    expect(second.resources.map(({ uri }: { uri: string }) => uri)).toEqual(["files://demo/b.bin"]);
    expect(cursor).not.toContain((await storage.list({ limit: 1 })).cursor);
  });

  test("a cursor of nobody is invalid params", async () => {
    const talk = talkTo(createHouse(open).sluice);
    for (const cursor of ["x", "s:garbage", "s:"]) {
      const { error } = (await talk(era, "resources/list", { params: { cursor } })).message;
      expect([error!.code, error!.data.reason]).toEqual([-32602, "invalid"]);
    }
  });

  test("the author's resources, registered before or after, stay listed and readable, only on the first page", async () => {
    const storage = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
    const { sluice } = createHouse({ ...open, storage: onePerPage(storage) });
    const talk = talkTo(
      sluice,
      (mcp) => {
        mcp.registerResource("one", "own://one", {}, text);
        mcp.registerResource(
          "any",
          new ResourceTemplate("any://{name}", { list: undefined }),
          {},
          text,
        );
      },
      (mcp) => void mcp.registerResource("late", "own://late", {}, text),
    );
    const page = (await talk(era, "resources/list")).message.result;
    expect(page.resources.map(({ uri }: { uri: string }) => uri)).toEqual([
      "own://one",
      "own://late",
      "files://demo/a.bin",
    ]);
    const next = await talk(era, "resources/list", { params: { cursor: page.nextCursor } });
    expect(next.message.result.resources).toHaveLength(1);
    for (const uri of ["own://one", "own://late", "any://thing"]) {
      const { result } = (await talk(era, "resources/read", { params: { uri } })).message;
      expect(result.contents[0].text).toBe(`own ${uri}`);
    }
    const templates = (await talk(era, "resources/templates/list")).message.result
      .resourceTemplates;
    expect(templates).toMatchObject([
      { uriTemplate: "any://{name}" },
      { uriTemplate: "files://demo/{+key}", streamable: true, _meta: marked },
    ]);
  });

  test("an author's list handler with pages of its own is walked before storage", async () => {
    const { sluice } = createHouse(open);
    const talk = talkTo(sluice, (mcp) => {
      mcp.registerResource("one", "own://one", {}, () => ({ contents: [] }));
      mcp.server.setRequestHandler("resources/list", ({ params }) =>
        params?.cursor === undefined
          ? { resources: [{ uri: "own://1", name: "1" }], nextCursor: "two" }
          : { resources: [{ uri: `own://${params.cursor}`, name: "2" }] },
      );
    });
    const walked: string[] = [];
    let cursor: string | undefined;
    do {
      const { result } = (await talk(era, "resources/list", { params: { cursor } })).message;
      walked.push(...result.resources.map(({ uri }: { uri: string }) => uri));
      cursor = result.nextCursor;
    } while (cursor !== undefined);
    expect(walked).toEqual(["own://1", "own://two", "files://demo/a.bin", "files://demo/b.bin"]);
  });

  test("read gives text for UTF-8, also behind a content coding, else base64", async () => {
    const storage = createMemoryBackend();
    storage.put("t.txt", "grüß");
    storage.put("j.json", "{}");
    storage.put("bad.txt", new Uint8Array([0xff, 0xfe]));
    storage.put("named", "x", { contentType: "text/plain; charset=utf-8" });
    storage.put("latin", new Uint8Array([0xe4]), { contentType: "text/plain; charset=iso-8859-1" });
    storage.put("zip.txt", gzipSync("x"), { contentEncoding: "gzip" });
    storage.put("big.bin", new Uint8Array(100_000).fill(1));
    const talk = talkTo(createHouse({ ...open, storage }).sluice);
    const read = async (name: string) =>
      (await talk(era, "resources/read", { params: { uri: `files://demo/${name}` } })).message
        .result.contents[0];
    expect(await read("t.txt")).toEqual({
      uri: "files://demo/t.txt",
      mimeType: "text/plain",
      text: "grüß",
      _meta: { [EXTENSION_ID]: { etag: expect.stringMatching(/^".+"$/) } },
    });
    expect(await read("j.json")).toMatchObject({ mimeType: "application/json", text: "{}" });
    expect(await read("bad.txt")).toMatchObject({ blob: "//4=" });
    expect(await read("named")).toMatchObject({ mimeType: "text/plain; charset=utf-8", text: "x" });
    expect(await read("latin")).toMatchObject({ blob: "5A==" });
    expect(await read("zip.txt")).toMatchObject({ mimeType: "text/plain", text: "x" });
    expect((await read("big.bin")).blob).toBe(Buffer.alloc(100_000, 1).toString("base64"));
  });

  test("above maxReadBytes read says too_large, advises to stream, and opens nothing to its end", async () => {
    const storage = createMemoryBackend({ small: "1234", large: "12345" });
    const unknown = wrapBackend(storage, {
      open: (openObject) => async (key, options) => {
        const { info, body } = await openObject(key, options);
        const { size: _size, ...rest } = info;
        return { info: rest, body };
      },
    });
    for (const each of [storage, unknown]) {
      const talk = talkTo(createHouse({ ...open, storage: each, maxReadBytes: 4 }).sluice);
      const { error } = (
        await talk(era, "resources/read", { params: { uri: "files://demo/large" } })
      ).message;
      expect(error!.code).toBe(era === "legacy" ? -32004 : -25324);
      expect(error!.data).toMatchObject({
        reason: "too_large",
        suggestion: "Use resources/stream for this resource",
      });
    }
  });

  test("hidden resources are not listed, and read as if they did not exist", async () => {
    const talk = talkTo(createHouse({ ...open, access: hidesA }).sluice);
    const { resources } = (await talk(era, "resources/list")).message.result;
    expect(resources.map(({ name }: { name: string }) => name)).toEqual(["b.bin"]);
    const errors = await Promise.all(
      ["a.bin", "gone.bin"].map(async (name) => {
        const { error } = (
          await talk(era, "resources/read", { params: { uri: `files://demo/${name}` } })
        ).message;
        return JSON.stringify(error).replace(name, "");
      }),
    );
    expect(new Set(errors).size).toBe(1);
    expect(errors[0]).toContain('"reason":"not_found"');
  });

  test("an access rule that breaks is a fault, not a shorter list", async () => {
    const house = createHouse({
      ...open,
      access: () => {
        throw new SluiceError("unavailable", "directory: down");
      },
    });
    const { error } = (await talkTo(house.sluice)(era, "resources/list")).message;
    expect(error!.data.reason).toBe("busy");
  });

  test("a stream goes where a read would go: not around an author's resource, enabled or not", async () => {
    for (const isEnabled of [true, false]) {
      const house = createHouse(open);
      const talk = talkTo(house.sluice, (mcp) => {
        const resource = mcp.registerResource("shadow", "files://demo/a.bin", {}, text);
        if (!isEnabled) resource.disable();
      });
      const { slot } = await talk(era, "resources/stream", {
        params: { uri: "files://demo/a.bin" },
      });
      expect(slot.reply).toBeUndefined();
      expect(slot.fault!.data.reason).toBe("stream_unsupported");
      const other = await talk(era, "resources/stream", { params: { uri: "files://demo/b.bin" } });
      expect(other.slot.reply!.status).toBe(200);
    }
  });

  test("another spelling of a URI leads not around an author's resource, in a read or a stream", async () => {
    const house = createHouse(open);
    const talk = talkTo(house.sluice, (mcp) => {
      mcp.registerResource("shadow", "files://demo/a.bin", {}, text).disable();
      const template = new ResourceTemplate("files://demo/private/{name}", { list: undefined });
      mcp.registerResource("private", template, {}, text);
    });
    house.storage.put("private/x", "secret");
    for (const uri of ["files://demo/%61.bin", "files://demo/%70rivate/x"]) {
      const read = await talk(era, "resources/read", { params: { uri } });
      expect([uri, read.message.error?.data.reason]).toEqual([uri, "not_found"]);
      const { slot } = await talk(era, "resources/stream", { params: { uri } });
      expect([uri, slot.reply, slot.fault?.data.reason]).toEqual([
        uri,
        undefined,
        "stream_unsupported",
      ]);
    }
    const params = { uri: "files://demo/%62.bin" };
    expect((await talk(era, "resources/read", { params })).message.result).toBeDefined();
    expect((await talk(era, "resources/stream", { params })).slot.reply!.status).toBe(200);
  });

  test("a resource of the author outside of the base cannot stream, and the answer says what can", async () => {
    const house = createHouse(open);
    const talk = talkTo(
      house.sluice,
      (mcp) => {
        mcp.registerResource("config", "config://app/small.json", {}, text);
        mcp.registerResource("off", "config://app/off.json", {}, text).disable();
        const template = new ResourceTemplate("users://{id}/profile", { list: undefined });
        mcp.registerResource("profile", template, {}, text);
      },
      (mcp) => void mcp.registerResource("late", "late://one", {}, text),
    );
    const asked = async (uri: string) =>
      (await talk(era, "resources/stream", { params: { uri } })).slot.fault;
    for (const uri of ["config://app/small.json", "users://ann/profile", "late://one"])
      expect(await asked(uri)).toMatchObject({
        code: era === "modern" ? -25323 : -32003,
        message: "Stream not supported",
        data: { uri, suggestion: "Use resources/read for this resource" },
      });
    for (const uri of ["config://app/off.json", "config://app/none.json", "users://ann"])
      expect(await asked(uri)).toMatchObject({ data: { reason: "not_found" } });
  });

  test("a scope handler that refuses without naming scopes opens no stream", async () => {
    const house = createHouse({ ...open, scopeChallenge: () => ({}) as never });
    const params = { uri: "files://demo/a.bin" };
    const { slot } = await talkTo(house.sluice)(era, "resources/stream", { params });
    expect(slot.reply).toBeUndefined();
    expect(slot.fault).toBeDefined();
  });

  test("the scopes that a read needs are needed for a stream", async () => {
    const house = createHouse({ ...open, scopeChallenge: requireScopes("files:read") });
    const talk = talkTo(house.sluice);
    const authInfo = {
      token: "t",
      clientId: "c",
      scopes: [] as string[],
      resourceMetadataUrl: "https://mcp.example.com/prm",
    };
    const params = { uri: "files://demo/a.bin" };
    const without = await talk(era, "resources/stream", { params, authInfo });
    expect(without.slot.reply).toBeUndefined();
    expect(without.slot.fault).toMatchObject({
      status: 403,
      challenge:
        'Bearer error="insufficient_scope", scope="files:read", resource_metadata="https://mcp.example.com/prm"',
      data: { reason: "forbidden" },
    });
    const allowed = await talk(era, "resources/stream", {
      params,
      authInfo: { ...authInfo, scopes: ["files:read"] },
    });
    expect(allowed.slot.reply!.status).toBe(200);
  });
});

describe("attaching", () => {
  test("declares streaming literally and as an extension, beside what the server declares", () => {
    const mcp = new McpServer(
      { name: "x", version: "1" },
      { capabilities: { extensions: { other: {} } } },
    );
    createHouse().sluice.attach(mcp);
    expect(mcp.server.getCapabilities()).toMatchObject({
      resources: { stream: true, listChanged: true },
      extensions: { [EXTENSION_ID]: {}, other: {} },
    });
  });

  test("without streaming, as over stdio, it declares none and marks nothing", async () => {
    const mcp = new McpServer({ name: "x", version: "1" });
    createHouse().sluice.attach(mcp, { stream: false });
    expect(JSON.stringify(mcp.server.getCapabilities())).not.toMatch(/stream/);
  });

  test.each([
    [true, true],
    [true, false],
    [false, true],
    [false, false],
  ])(
    "gives the server back; a second time changes nothing; a second Sluice is refused (%s, %s)",
    (stream, another) => {
      const mcp = new McpServer({ name: "x", version: "1" });
      const { sluice } = createHouse();
      expect(sluice.attach(mcp, { stream })).toBe(mcp);
      expect(sluice.attach(mcp, { stream })).toBe(mcp);
      const second = createHouse().sluice;
      const refusal = new TypeError(
        "sluice: attach: the server has a Sluice already; one with several storages takes them as mounts",
      );
      expect(() => second.attach(mcp, { stream: another })).toThrow(refusal);
      expect(() => second.host.ensureOwn(mcp)).toThrow(TypeError);
    },
  );

  test.each(eras)("%s: without streaming, the method is not there", async (era) => {
    const talk = talkTo(createHouse(open).sluice, undefined, undefined, { stream: false });
    const { message } = await talk(era, "resources/stream", {
      params: { uri: "files://demo/a.bin" },
    });
    expect(message.error!.code).toBe(-32601);
  });
});
