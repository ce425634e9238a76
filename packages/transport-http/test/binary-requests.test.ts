import { request } from "node:http";
import { binaryReads, openBinary } from "@sluice/binary-transfer";
import { SluiceError } from "@sluice/core";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { readMultipartRequest } from "../src/binary/with-binary.ts";
import { serve, type Served } from "./serve.ts";

const uri = "files://demo/a.bin";
const bytes = Buffer.alloc(300_000, "0123456789");
const streamId = "11111111-1111-4111-8111-111111111111";
const declared = { binaryTransfer: { supported: true, preferredMode: "multipart" } };

interface Sent {
  readonly capabilities?: object;
  readonly args?: object;
  readonly method?: string;
  /** Behind the JSON; absent: no multipart. */
  readonly parts?: readonly string[];
  readonly type?: string;
  readonly end?: string;
}

const partOf = (id: string, text: string): string => `Content-ID: <${id}>\r\n\r\n${text}`;

/** Posts a call as a legacy client without a session would that only knows the RFC. */
async function post({ url }: Served, sent: Sent): Promise<Response> {
  const { capabilities = declared, method = "tools/call", parts, end = "--b--" } = sent;
  const params = method === "tools/call" ? { name: "read", arguments: sent.args } : sent.args;
  const json = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method,
    params: { ...params, _meta: { "io.modelcontextprotocol/clientCapabilities": capabilities } },
  });
  const lines = ["--b", "Content-Type: application/json", "", json];
  const body = parts
    ? [...lines, ...parts.flatMap((part) => ["--b", part]), end].join("\r\n")
    : json;
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": sent.type ?? (parts ? "multipart/mixed; boundary=b" : "application/json"),
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-11-25",
    },
    body: Buffer.from(body, "latin1"),
  });
}

/** The text of a tool's result, whether it came as JSON or as an event. */
async function said(response: Response): Promise<string> {
  const text = (await response.text()).replace(/^[^{]*/, "");
  const { result } = JSON.parse(text) as { result: { content: { text: string }[] } };
  return result.content[0]!.text;
}

const start = (binary: object | false = {}): Promise<Served> =>
  serve({
    sluice: { storage: createMemoryBackend({ "a.bin": bytes }) },
    attach: { binary: binaryReads },
    ...(binary && { binary: { maxBinaryBytes: 1_000_000, ...binary } }),
    register: (mcp) => {
      mcp.registerTool(
        "read",
        { inputSchema: z.object({ files: z.array(z.looseObject({})) }) },
        async ({ files }) => {
          const texts = files.map(async (file) => {
            try {
              return await new Response(openBinary(file)!.body).text();
            } catch (error) {
              return SluiceError.is(error) ? error.code : String(error);
            }
          });
          return { content: [{ type: "text", text: (await Promise.all(texts)).join() }] };
        },
      );
    },
  });

const file = (ref: object = {}): object => ({
  type: "image",
  mimeType: "x/y",
  data: "",
  binaryRef: { streamId, size: 5, ...ref },
});
const other = streamId.replaceAll("1", "2");

describe("requests", () => {
  test.each<[string, Sent, string]>([
    [
      "what was announced",
      { args: { files: [file()] }, parts: [partOf(streamId, "hello")] },
      "hello",
    ],
    [
      "a part whose Content-ID has no angle brackets",
      { args: { files: [file()] }, parts: [`Content-ID: ${streamId}\r\n\r\nhello`] },
      "hello",
    ],
    [
      "a part with a malformed Content-ID beside another",
      {
        args: { files: [file(), file({ streamId: other })] },
        parts: [`Content-ID: <${streamId}\r\n\r\nhello`, partOf(other, "hello")],
      },
      "protocol,hello",
    ],
    ["short data", { args: { files: [file()] }, parts: [partOf(streamId, "hell")] }, "interrupted"],
    ["long data", { args: { files: [file()] }, parts: [partOf(streamId, "hello!")] }, "protocol"],
    [
      "another checksum",
      { args: { files: [file({ checksum: "0".repeat(64) })] }, parts: [partOf(streamId, "hello")] },
      "corrupt",
    ],
    ["no part", { args: { files: [file()] }, parts: [partOf(other, "hello")] }, "protocol"],
    [
      "one over the limit beside another",
      {
        args: { files: [file({ size: 2e6 }), file({ streamId: other })] },
        parts: [partOf(streamId, "x"), partOf(other, "hello")],
      },
      "too_large,hello",
    ],
    [
      "an end too early",
      { args: { files: [file()] }, parts: [partOf(streamId, "hel")], end: "" },
      "interrupted",
    ],
  ])("%s is what the tool sees, by name, and the next request works", async (_, sent, text) => {
    const served = await start();
    expect(await said(await post(served, sent))).toBe(text);
    const args = { files: [file()] };
    expect(await said(await post(served, { args, parts: [partOf(streamId, "hello")] }))).toBe(
      "hello",
    );
    expect(served.errors).toEqual([]);
  });

  test.each<[string, number, Sent]>([
    [
      "bytes of a client that declared nothing",
      415,
      { capabilities: {}, args: { files: [file()] }, parts: [partOf(streamId, "hello")] },
    ],
    [
      "bytes of a client of another mode",
      415,
      {
        capabilities: { binaryTransfer: { supported: true, preferredMode: "stream" } },
        args: { files: [file()] },
        parts: [],
      },
    ],
    ["an invalid reference", 400, { args: { files: [file({ streamId: "x" })] }, parts: [] }],
    [
      "an invalid boundary",
      400,
      { args: { files: [] }, parts: [], type: 'multipart/mixed; boundary="a;b"' },
    ],
    [
      "a body without the boundary",
      400,
      { args: { files: [] }, parts: [], type: "multipart/mixed; boundary=c" },
    ],
    ["JSON over the limit", 413, { args: { files: [], more: "x".repeat(200_000) }, parts: [] }],
  ])("%s is refused", async (_, status, sent) => {
    const served = await start({ maxRequestBodySize: 100_000 });
    expect((await post(served, sent)).status).toBe(status);
    const args = { files: [file()] };
    expect(await said(await post(served, { args, parts: [partOf(streamId, "hello")] }))).toBe(
      "hello",
    );
    expect(served.errors).toEqual([]);
  });

  test("without the mode a multipart request is the SDK's to refuse", async () => {
    const served = await start(false);
    const response = await post(served, { args: { files: [] }, parts: [] });
    expect(response.status).toBe(415);
  });

  test("a body that is not wanted ends with its connection", async () => {
    const { url } = await start();
    const outgoing = request(url, {
      method: "POST",
      headers: { "content-type": "multipart/mixed; boundary=b" },
    });
    const chunk = Buffer.alloc(65_536);
    const closed = new Promise<number>((resolve) => {
      let sent = 0;
      const send = (): void => {
        if (outgoing.destroyed) return;
        sent += chunk.length;
        outgoing.write(chunk, () => setImmediate(send));
      };
      outgoing.on("error", () => {});
      outgoing.on("close", () => resolve(sent));
      outgoing.write("--b\r\nContent-Type: text/plain\r\n\r\n");
      send();
    });
    // 64 MiB are read so that the refusal arrives, and the kernel has some more
    expect(await closed).toBeLessThan(96 * 2 ** 20);
  });
});

test.each([
  ["drips", 1_000, "timeout"],
  ["is as fast as it has to be", 50_000, "too_large"],
])("a body that %s ends accordingly", async (_, bytesEach, code) => {
  let clock = 0;
  const now = vi.spyOn(performance, "now").mockImplementation(() => clock);
  onTestFinished(() => now.mockRestore());
  const head = Buffer.from("--b\r\nContent-Type: application/json\r\n\r\n");
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(head),
      pull(controller) {
        clock += 10_000;
        controller.enqueue(Buffer.alloc(bytesEach, " "));
      },
    },
    { highWaterMark: 0 },
  );
  await expect(readMultipartRequest(body, "b", 500_000)).rejects.toMatchObject({ code });
});

describe("answers", () => {
  const read = { method: "resources/read", args: { uri, transferMode: "binary" } };

  test("a client gets several parts only where it declared them on this request", async () => {
    const served = await start();
    for (const [capabilities, type] of [
      [declared, "multipart/mixed"],
      [{}, "text/event-stream"],
      [{ binaryTransfer: { supported: false } }, "text/event-stream"],
      [
        { binaryTransfer: { supported: true, preferredMode: "websocket-binary" } },
        "text/event-stream",
      ],
      [{ binaryTransfer: { supported: true, maxBinarySize: 1_000 } }, "application/json"],
    ] as const) {
      const response = await post(served, { ...read, capabilities });
      expect(response.headers.get("content-type")).toContain(type);
      await response.body?.cancel();
    }
    const text = await post(served, { ...read, args: { uri } });
    expect(text.headers.get("content-type")).toContain("application/json");
    await text.body?.cancel();
  });

  test("the JSON comes first, and what it says is true of the part [BINARY/3.b.multipart/parts] [BINARY/transports/http]", async () => {
    const served = await start();
    const response = await post(served, read);
    const body = Buffer.from(await response.arrayBuffer());
    expect(response.headers.get("content-length")).toBe(String(body.length));
    expect(response.headers.get("cache-control")).toContain("no-store");
    const type = response.headers.get("content-type");
    const [, boundary = ""] = /^multipart\/mixed; boundary=([\w.-]+)$/.exec(type ?? "") ?? [];
    const text = body.toString("latin1");
    // nothing before the first part and nothing after the last
    const [before, first = "", second = "", end] = text.split(`--${boundary}`);
    expect([before, end]).toEqual(["", "--\r\n"]);
    const [head, json] = first.split("\r\n\r\n");
    expect(head).toContain("\r\nContent-Type: application/json");
    const { result } = JSON.parse(json!) as {
      result: { contents: { binaryRef: { streamId: string; size: number } }[] };
    };
    const [{ binaryRef }] = result.contents as [{ binaryRef: { streamId: string; size: number } }];
    expect(binaryRef.size).toBe(bytes.length);
    expect(second).toBe(
      `\r\nContent-Type: application/octet-stream\r\nContent-ID: <${binaryRef.streamId}>\r\nContent-Length: ${bytes.length}\r\n\r\n${bytes.toString("latin1")}\r\n`,
    );
    await expect.poll(() => served.records.at(-1)?.outcome).toBe("complete");
    expect(served.records.at(-1)).toMatchObject({ action: "read", bytes: bytes.length });
  });

  test("an error after the first byte destroys the connection", async () => {
    const memory = createMemoryBackend({ "a.bin": bytes });
    const served = await serve({
      sluice: {
        storage: {
          ...memory,
          async open(key, options) {
            const opened = await memory.open(key, options);
            const chunks = [bytes.subarray(0, 100_000)];
            const body = new ReadableStream<Uint8Array>({
              pull(controller) {
                const chunk = chunks.pop();
                if (chunk) controller.enqueue(chunk);
                else controller.error(new SluiceError("unavailable", "storage: gone"));
              },
            });
            return { info: opened.info, body };
          },
        },
      },
      attach: { binary: binaryReads },
      binary: {},
    });
    const response = await post(served, read);
    expect(response.status).toBe(200);
    await expect(response.arrayBuffer()).rejects.toThrow("terminated");
    await expect.poll(() => served.records.at(-1)?.outcome).toBe("failed");
  });

  test("a client that goes away ends the transfer", async () => {
    const served = await start();
    const response = await post(served, read);
    await response.body!.cancel();
    await expect.poll(() => served.records.length).toBe(1);
    expect(["aborted", "complete"]).toContain(served.records[0]!.outcome);
  });
});
