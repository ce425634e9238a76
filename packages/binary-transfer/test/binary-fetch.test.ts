import { createHash } from "node:crypto";
import {
  binaryContent,
  type BinaryFetch,
  type BinaryFetchOptions,
  createBinaryFetch,
  openBinary,
} from "@sluice/binary-transfer/client";
import { SluiceError } from "@sluice/core";
import { describe, expect, onTestFinished, test } from "vitest";

const first = "11111111-1111-4111-8111-111111111111";
const second = "22222222-2222-4222-8222-222222222222";
const bytes = "hello";
const sha256 = createHash("sha256").update(bytes).digest("hex");
const good = { streamId: first, size: bytes.length, checksum: sha256 };

/** A message of several parts as a server would write it that knows only the RFC. */
function multipart(json: unknown, ...parts: string[]): Response {
  const lines = [
    "--mcp-boundary",
    "Content-Type: application/json",
    "",
    JSON.stringify(json),
    ...parts.flatMap((part) => ["--mcp-boundary", part]),
    "--mcp-boundary--",
  ];
  return new Response(lines.join("\r\n"), {
    headers: { "content-type": "multipart/mixed; boundary=mcp-boundary" },
  });
}

const closing = "\r\n--mcp-boundary--";
const partOf = (streamId: string, text: string): string =>
  `Content-Type: x/y\r\nContent-ID: <${streamId}>\r\n\r\n${text}`;
const answer = (...refs: object[]) => ({
  jsonrpc: "2.0",
  id: 1,
  result: { contents: refs.map((binaryRef) => ({ uri: "x:y", mimeType: "x/y", binaryRef })) },
});

interface Talk {
  readonly binary: BinaryFetch;
  readonly requests: RequestInit[];
  /** The next response of the server. */
  next: Response;
  /** Posts a call and gives the contents of its result. */
  read(): Promise<object[]>;
  post(message: object): Promise<Response>;
}

/** A client whose server declared the mode. */
async function talk(options: BinaryFetchOptions = {}): Promise<Talk> {
  const requests: RequestInit[] = [];
  const binary = createBinaryFetch({
    ...options,
    fetch: async (_url, init) => {
      requests.push(init!);
      return state.next;
    },
  });
  onTestFinished(() => binary.close());
  const state: Talk = {
    binary,
    requests,
    next: Response.json({
      jsonrpc: "2.0",
      id: 0,
      result: {
        capabilities: { binaryTransfer: { supported: true, supportedModes: ["multipart"] } },
      },
    }),
    post: (message) =>
      binary.fetch("http://x/", {
        method: "POST",
        body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      }),
    async read() {
      const response = await state.post({
        id: 1,
        method: "resources/read",
        params: { uri: "x:y" },
      });
      return ((await response.json()) as { result: { contents: object[] } }).result.contents;
    },
  };
  await state.post({ id: 0, method: "initialize", params: { capabilities: {} } });
  return state;
}

async function outcome(content: object): Promise<string> {
  try {
    return await new Response(openBinary(content)!.body).text();
  } catch (error) {
    return SluiceError.is(error) ? error.code : String(error);
  }
}

describe("answers", () => {
  test("a server that only knows the RFC is understood [BINARY/3.b.multipart/parts]", async () => {
    const client = await talk();
    client.next = multipart(
      answer(good, { ...good, streamId: second }),
      partOf(first, bytes),
      partOf(second, bytes),
    );
    const contents = await client.read();
    expect(await Promise.all(contents.map(outcome))).toEqual([bytes, bytes]);
  });

  test.each<[string, Response, string[]]>([
    ["short data", multipart(answer(good), partOf(first, "hell")), ["interrupted"]],
    ["long data", multipart(answer(good), partOf(first, "hello!")), ["protocol"]],
    ["another checksum", multipart(answer(good), partOf(first, "hallo")), ["corrupt"]],
    ["no part", multipart(answer(good)), ["protocol"]],
    [
      "another length than announced",
      multipart(answer(good), `Content-Length: 4\r\n${partOf(first, "hell")}`),
      ["protocol"],
    ],
    [
      "an id that is announced twice",
      multipart(answer(good, good), partOf(first, bytes)),
      [bytes, "protocol"],
    ],
    [
      "a part that comes twice",
      multipart(answer(good), partOf(first, bytes), partOf(first, bytes)),
      [bytes],
    ],
    [
      "a part that nothing announced",
      multipart(answer(good), partOf(second, "x"), partOf(first, bytes)),
      [bytes],
    ],
    ["a part without an id", multipart(answer(good), "\r\nx", partOf(first, bytes)), [bytes]],
    [
      "one that is over the limit",
      multipart(
        answer({ ...good, size: 99 }, { ...good, streamId: second }),
        partOf(first, "x"),
        partOf(second, bytes),
      ),
      ["too_large", bytes],
    ],
    [
      "an end within a part",
      new Response(
        `--b\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(answer(good))}\r\n--b\r\n${partOf(first, "he")}`,
        { headers: { "content-type": "multipart/mixed; boundary=b" } },
      ),
      ["interrupted"],
    ],
    [
      "a broken one and a good one",
      multipart(
        answer(good, { ...good, streamId: second }),
        partOf(first, "hallo"),
        partOf(second, bytes),
      ),
      ["corrupt", bytes],
    ],
  ])("%s ends that transfer by name, and the next one comes", async (_, response, outcomes) => {
    const client = await talk({ maxBinaryBytes: 20 });
    client.next = response;
    expect(await Promise.all((await client.read()).map(outcome))).toEqual(outcomes);
    const third = second.replaceAll("2", "3");
    client.next = multipart(answer({ ...good, streamId: third }), partOf(third, bytes));
    expect(await outcome((await client.read())[0]!)).toBe(bytes);
  });

  test("an id works once, even in a later message", async () => {
    const client = await talk();
    for (const outcomes of [bytes, "protocol"]) {
      client.next = multipart(answer(good), partOf(first, bytes));
      expect(await outcome((await client.read())[0]!)).toBe(outcomes);
    }
  });

  test.each([
    ["invalid JSON", new Response("--b\r\nContent-Type: application/json\r\n\r\n{\r\n--b--")],
    ["bytes first", new Response(`--b\r\n${partOf(first, bytes)}\r\n--b--`)],
    ["JSON without end", new Response("--b\r\nContent-Type: application/json\r\n\r\n{}")],
    [
      "JSON over the limit",
      new Response(`--b\r\nContent-Type: application/json\r\n\r\n${" ".repeat(200)}\r\n--b--`),
    ],
  ])("%s rejects the call", async (_, response) => {
    const client = await talk({ maxJsonBytes: 100 });
    client.next = new Response(response.body, {
      headers: { "content-type": 'multipart/mixed; boundary="b"' },
    });
    await expect(client.read()).rejects.toMatchObject({ name: "SluiceError" });
  });

  test("a reader that gives up a transfer lets go of the connection", async () => {
    const client = await talk();
    let cancelled = false;
    const text = Buffer.from(
      await multipart(answer({ ...good, size: 1_000_000 }), partOf(first, "x")).arrayBuffer(),
    );
    client.next = new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(text.subarray(0, -closing.length)),
        pull: (controller) => controller.enqueue(Buffer.alloc(1_000)),
        cancel: () => void (cancelled = true),
      }),
      { headers: { "content-type": "multipart/mixed; boundary=mcp-boundary" } },
    );
    const [content] = await client.read();
    const reader = openBinary(content!)!.body.getReader();
    await reader.read();
    await reader.cancel();
    await expect.poll(() => cancelled).toBe(true);
  });

  test("a slow reader holds the sender to its window", async () => {
    const client = await talk({ windowBytes: 10_000 });
    let sent = 0;
    const size = 1_000_000;
    const text = Buffer.from(
      await multipart(answer({ streamId: first, size }), partOf(first, "")).arrayBuffer(),
    );
    client.next = new Response(
      new ReadableStream(
        {
          start: (controller) => controller.enqueue(text.subarray(0, -closing.length)),
          pull(controller) {
            sent += 1_000;
            controller.enqueue(Buffer.alloc(1_000));
          },
        },
        { highWaterMark: 0 },
      ),
      { headers: { "content-type": "multipart/mixed; boundary=mcp-boundary" } },
    );
    const [content] = await client.read();
    const { body } = openBinary(content!)!;
    await expect.poll(() => sent).toBeGreaterThanOrEqual(10_000);
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(sent).toBeLessThan(20_000);
    await body.cancel();
  });
});

describe("requests", () => {
  const args = async ({ binary }: Talk): Promise<object> =>
    binaryContent(binary.outlet!, { type: "blob", mimeType: "x/y", bytes: Buffer.from(bytes) });

  test("bytes are parts behind the JSON, once [BINARY/3.b.multipart/parts]", async () => {
    const client = await talk();
    const call = {
      id: 2,
      method: "tools/call",
      params: { name: "t", arguments: { file: await args(client) } },
    };
    client.next = Response.json({ jsonrpc: "2.0", id: 2, result: {} });
    await client.post(call);
    const { headers, body } = client.requests.at(-1)!;
    expect(new Headers(headers).get("content-type")).toMatch(/^multipart\/mixed; boundary=/);
    const text = await new Response(body).text();
    expect(text).toContain(`\r\nContent-Length: 5\r\n\r\n${bytes}\r\n--`);
    expect(text.indexOf("application/json")).toBeLessThan(text.indexOf("Content-ID: <"));
    await expect(client.post(call)).rejects.toMatchObject({ code: "protocol" });
  });

  test("a server that declared nothing gets none", async () => {
    const client = await talk();
    client.next = Response.json({ jsonrpc: "2.0", id: 0, result: { capabilities: {} } });
    await client.post({ id: 0, method: "initialize", params: {} });
    expect(client.binary.outlet).toBeUndefined();
  });

  test("a request that is not a call passes through unchanged", async () => {
    const client = await talk();
    client.next = new Response(null, { status: 202 });
    for (const init of [
      { method: "GET" },
      { method: "POST", body: "[]" },
      { method: "POST", body: "{" },
    ]) {
      await client.binary.fetch("http://x/", init);
      expect(client.requests.at(-1)).toBe(init);
    }
  });
});
