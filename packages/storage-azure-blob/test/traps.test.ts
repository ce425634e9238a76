import { protect } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ContainerClient } from "@azure/storage-blob";
import { type Azurite, clientFor, sharedAzurite, startMs } from "./azurite.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { answerGenerated } from "./generated-blob.ts";
import { refuse } from "./http-service.ts";
import { answerPage, startScriptedService } from "./scripted-service.ts";

let azurite: Azurite;
let container: ContainerClient;
let other: ContainerClient;
let proxy: FaultProxy;
let behindProxy: ContainerClient;
beforeAll(async () => {
  azurite = await sharedAzurite();
  container = await azurite.createContainer();
  other = await azurite.createContainer();
  await other.getBlockBlobClient("x").upload("TOP SECRET", 10);
  proxy = await startFaultProxy(container);
  behindProxy = clientFor(container.url.replace(new URL(container.url).origin, proxy.url));
}, startMs);
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await container.delete();
  await other.delete();
});

const text = (body: ReadableStream<Uint8Array>) => new Response(body).text();
const put = (name: string, content: string) =>
  container.getBlockBlobClient(name).upload(content, content.length);

describe("names", () => {
  test("a key does not lead into another container, unlike with the SDK alone", async () => {
    const key = `../${other.containerName}/x`;
    const backend = createAzureBlobBackend({ client: container, writable: true });
    const escaped = await container.getBlobClient(key).downloadToBuffer();
    expect(escaped.toString()).toBe("TOP SECRET");
    for (const hostile of [key, `a/../${key}`, `./${key}`, `a/../../${other.containerName}/x`])
      for (const call of [
        () => backend.describe(hostile),
        () => backend.open(hostile),
        () => backend.presign!(hostile, { expiresInMs: 1000 }),
        () => backend.write(hostile),
      ])
        await expect(call()).rejects.toMatchObject({ code: "invalid_argument" });
  });

  test("with a prefix nothing outside it is reached or listed", async () => {
    await put("tenant/a.txt", "mine");
    await put("tenant-b/a.txt", "not mine");
    await put("a.txt", "not mine");
    const backend = createAzureBlobBackend({ client: container, prefix: "tenant" });
    expect(await text((await backend.open("a.txt")).body)).toBe("mine");
    for (const key of ["../a.txt", "../tenant-b/a.txt"])
      await expect(backend.open(key)).rejects.toMatchObject({ code: "invalid_argument" });
    expect((await backend.list()).objects.map(({ key }) => key)).toEqual(["a.txt"]);
    expect((await backend.list({ prefix: "../" })).objects).toEqual([]);
  });

  test("a name that ends with a dot is refused: the service takes it for the one without", async () => {
    const backend = createAzureBlobBackend({ client: container });
    for (const key of ["a.txt.", "folder./a.txt", "..."])
      await expect(backend.describe(key)).rejects.toMatchObject({ code: "invalid_argument" });
  });

  test("a signed URL has its name encoded once", async () => {
    await put("a%20b c+d.txt", "once");
    const backend = createAzureBlobBackend({ client: container });
    const { url } = (await backend.presign!("a%20b c+d.txt", { expiresInMs: 60_000 }))!;
    expect(url).toContain("/a%2520b%20c%2Bd.txt?");
    expect(await (await fetch(url)).text()).toBe("once");
  });
});

describe("reading", () => {
  test("an empty range has no bytes, while the bare SDK gives all", async () => {
    await put("ten", "0123456789");
    const all = await container.getBlobClient("ten").downloadToBuffer(0, 0);
    expect(all.byteLength).toBe(10);
    const backend = createAzureBlobBackend({ client: container });
    for (const start of [0, 5]) {
      const { body, range, info } = await backend.open("ten", { range: { start, end: start } });
      expect([await text(body), range, info.size]).toEqual(["", { start, end: start }, 10]);
    }
  });

  test.each(["reset", "truncate"] as const)(
    "a connection that breaks (%s) is interrupted, although the SDK reports an abort",
    async (kind) => {
      await container.getBlockBlobClient("broken").upload(Buffer.alloc(900_000), 900_000);
      proxy.next({ kind, at: 100_000 });
      const raw = await behindProxy.getBlobClient("broken").download();
      const sdkError = await new Promise<Error>((resolve) => {
        raw.readableStreamBody?.on("error", resolve).resume();
      });
      expect(sdkError.name).toBe("AbortError");
      const backend = createAzureBlobBackend({ client: behindProxy });
      proxy.next({ kind, at: 100_000 });
      const { body } = await backend.open("broken");
      await expect(text(body)).rejects.toMatchObject({ code: "interrupted", retryable: true });
    },
  );

  test("a protected backend resumes after the break, at the byte where it was", async () => {
    const content = Buffer.from(Array.from({ length: 900_000 }, (_, n) => n % 251));
    await container.getBlockBlobClient("resumed").upload(content, content.byteLength);
    const backend = protect(createAzureBlobBackend({ client: behindProxy }));
    proxy.next({ kind: "reset", at: 100_000 });
    const { body } = await backend.open("resumed");
    expect(Buffer.from(await new Response(body).arrayBuffer()).equals(content)).toBe(true);
  });

  test("no suffix range is ever sent", async () => {
    const ranges: unknown[] = [];
    await using service = await startScriptedService((request, response) => {
      ranges.push(request.headers["x-ms-range"] ?? request.headers.range);
      void answerGenerated({ size: 100 }, request, response);
    });
    const backend = createAzureBlobBackend({ client: service.container });
    for (const range of [
      { start: 0 },
      { start: 99 },
      { start: 0, end: 1 },
      { start: 90, end: 200 },
      { start: 5, end: 5 },
    ])
      await text((await backend.open("x", { range })).body);
    expect(ranges).toEqual([undefined, "bytes=99-", "bytes=0-0", "bytes=90-199", "bytes=5-5"]);
  });

  test("a resumed read fails after a write of metadata: bytes may also have changed", async () => {
    await put("touched", "0123456789");
    const backend = createAzureBlobBackend({ client: container });
    const { etag } = await backend.describe("touched");
    await container.getBlobClient("touched").setMetadata({ touched: "yes" });
    const resumed = backend.open("touched", { range: { start: 5 }, ifMatch: etag! });
    await expect(resumed).rejects.toMatchObject({ code: "precondition_failed" });
  });

  test("the MD5 of a range is not taken for that of the blob", async () => {
    await using service = await startScriptedService((_, response) => {
      response.writeHead(206, {
        "content-length": 5,
        "content-range": "bytes 0-4/10",
        "content-md5": Buffer.alloc(16, 1).toString("base64"),
        "x-ms-blob-content-md5": Buffer.alloc(16, 2).toString("base64"),
        etag: '"0x1"',
      });
      response.end("01234");
    });
    const backend = createAzureBlobBackend({ client: service.container });
    const { info, body } = await backend.open("x", { range: { start: 0, end: 5 } });
    await body.cancel();
    expect(info.digests).toEqual({ md5: "02".repeat(16) });
  });

  test.each([
    ["another place", 206, "bytes 1-5/10", 5],
    ["too few bytes", 206, "bytes 0-4/10", 4],
    ["more bytes than it says", 206, "bytes 0-4/10", 6],
    ["no place at all", 206, undefined, 5],
    ["everything", 200, undefined, 10],
  ])("an answer to a range with %s is corrupt, and none of it is passed on", async (...given) => {
    const [, status, contentRange, bytes] = given;
    await using service = await startScriptedService((_, response) => {
      response.writeHead(status, {
        "content-length": bytes,
        ...(contentRange !== undefined && { "content-range": contentRange }),
        etag: '"0x1"',
      });
      response.end("x".repeat(bytes));
    });
    const backend = createAzureBlobBackend({ client: service.container });
    const opening = backend.open("x", { range: { start: 0, end: 5 } });
    await expect(opening).rejects.toMatchObject({ code: "corrupt" });
  });

  test("a part that was not asked for is not passed off as the whole, nor one version as another", async () => {
    await using service = await startScriptedService((_, response) => {
      response.writeHead(206, {
        "content-range": "bytes 0-4/10",
        "content-length": 5,
        etag: '"0x1"',
      });
      response.end("01234");
    });
    const backend = createAzureBlobBackend({ client: service.container });
    for (const range of [undefined, { start: 0 }])
      await expect(backend.open("x", { ...(range && { range }) })).rejects.toMatchObject({
        code: "corrupt",
      });
    const another = backend.open("x", { range: { start: 0, end: 5 }, ifMatch: "0x2" });
    await expect(another).rejects.toMatchObject({ code: "precondition_failed" });
    await expect.poll(() => service.countOpen()).toBe(0);
  });

  test.each([true, false])(
    "an empty blob refuses ranges with its size, as the service does (size in the 416: %s)",
    async (told) => {
      await using service = await startScriptedService((request, response) => {
        if (request.headers["x-ms-range"] !== undefined && !told)
          return refuse(request, response, 416, "InvalidRange");
        void answerGenerated({ size: 0 }, request, response);
      });
      const backend = createAzureBlobBackend({ client: service.container });
      for (const range of [{ start: 0, end: 5 }, { start: 3 }])
        await expect(backend.open("empty", { range })).rejects.toMatchObject({
          code: "range_not_satisfiable",
          size: 0,
        });
      expect(await text((await backend.open("empty")).body)).toBe("");
    },
  );

  test("the empty 206 of the emulator is also a refusal", async () => {
    await put("nothing", "");
    const backend = createAzureBlobBackend({ client: container });
    for (const range of [{ start: 0 }, { start: 0, end: 1 }, { start: 0, end: 0 }])
      await expect(backend.open("nothing", { range })).rejects.toMatchObject({
        code: "range_not_satisfiable",
        size: 0,
      });
  });

  test("an archived blob is unsupported and not listed", async () => {
    await using service = await startScriptedService((request, response) => {
      if (request.url?.includes("comp=list"))
        return answerPage(response, [
          { name: "cold", properties: "<AccessTier>Archive</AccessTier>" },
          { name: "warm", properties: "<AccessTier>Cool</AccessTier>" },
        ]);
      if (request.method === "GET") return refuse(request, response, 409, "BlobArchived");
      response.writeHead(200, { "content-length": 9, "x-ms-access-tier": "Archive" }).end();
    });
    const backend = createAzureBlobBackend({ client: service.container });
    for (const call of [() => backend.open("cold"), () => backend.describe("cold")])
      await expect(call()).rejects.toMatchObject({ code: "unsupported" });
    const page = await backend.list();
    expect(page.objects.map(({ key }) => key)).toEqual(["warm"]);
    expect(page.unlisted).toEqual({ archived: 1 });
  });
});

describe("listing", () => {
  test("neither uncommitted blobs nor snapshots, versions or deleted blobs are asked for", async () => {
    await using service = await startScriptedService((_, response) => answerPage(response, []));
    await createAzureBlobBackend({ client: service.container }).list({ prefix: "a&b=" });
    const [request = ""] = service.requests;
    const { searchParams } = new URL(request.slice("GET ".length), service.url);
    expect(searchParams.get("include")).toBe("metadata");
    expect(searchParams.get("prefix")).toBe("a&b=");
  });

  test("an empty page with a marker is not the end", async () => {
    await using service = await startScriptedService((request, response) => {
      const { searchParams } = new URL(request.url!, "http://x");
      if (!searchParams.has("marker")) return answerPage(response, [], "2!4!later");
      expect(searchParams.get("marker")).toBe("2!4!later");
      answerPage(response, [{ name: "found.txt", size: 3 }]);
    });
    const backend = createAzureBlobBackend({ client: service.container });
    const { objects, cursor } = await backend.list();
    expect([objects, typeof cursor]).toEqual([[], "string"]);
    const rest = await backend.list({ cursor: cursor! });
    expect([rest.objects[0]?.key, rest.cursor]).toEqual(["found.txt", undefined]);
    for (const prefix of ["f", "other/"])
      await expect(backend.list({ cursor: cursor!, prefix })).rejects.toMatchObject({
        code: "invalid_argument",
      });
  });

  test("names that XML cannot hold come encoded; invalid keys are counted", async () => {
    await using service = await startScriptedService((_, response) =>
      answerPage(response, [
        { name: '<Name Encoded="true">bad%01name</Name>' },
        { name: '<Name Encoded="true">odd%EF%BF%BEname</Name>' },
        { name: "folder", metadata: "<hdi_isfolder>true</hdi_isfolder>", size: 0 },
        { name: "folder/" },
        { name: "a\\b" },
        { name: "dot." },
        { name: "a.txt" },
      ]),
    );
    const { objects, unlisted } = await createAzureBlobBackend({
      client: service.container,
    }).list();
    expect(objects.map(({ key }) => key)).toEqual(["odd\ufffename", "a.txt"]);
    expect(unlisted).toEqual({ control: 1, backslash: 1, reserved: 1 });
  });
});
