import { createHash, randomUUID } from "node:crypto";
import { binaryContent, binaryReads, openBinary } from "@sluice/binary-transfer";
import { encodeStreamId } from "@sluice/binary-transfer/internal";
import { SluiceError } from "@sluice/core";
import { BINARY_ABORT_METHOD, BINARY_CREDIT_METHOD } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { deferred } from "./deferred.ts";
import { frame, initialize, opcodes, rawSocket, type RawSocket } from "./raw-socket.ts";
import { bytes, serve, uri, type ServeOptions } from "./serve.ts";

const sha256 = createHash("sha256").update("hello").digest("hex");
const declared = { supported: true, preferredMode: "websocket-binary" };

/** A client without any library that says what it takes. */
async function open(
  binaryTransfer: object | undefined,
  options: ServeOptions = {},
): Promise<
  RawSocket & {
    ask(method: string, params: object): Promise<string>;
    /** The server reads nothing more for now. */
    isHeldUp(): boolean;
  }
> {
  const { port, http } = await serve({
    attach: { binary: binaryReads },
    ws: { binary: { maxBinaryBytes: 1_000_000, windowBytes: 100_000 } },
    register: registerRead,
    ...options,
  });
  let isHeldUp = (): boolean => false;
  http.once("connection", (socket) => (isHeldUp = () => socket.isPaused()));
  const peer = await rawSocket(port);
  const capabilities = binaryTransfer ? { binaryTransfer } : {};
  peer.text({ ...initialize, params: { ...initialize.params, capabilities } });
  await peer.json();
  peer.text({ jsonrpc: "2.0", method: "notifications/initialized" });
  let id = 0;
  return {
    ...peer,
    isHeldUp: () => isHeldUp(),
    async ask(method, params) {
      id += 1;
      peer.text({ jsonrpc: "2.0", id, method, params });
      for (;;) {
        const { opcode, payload } = await peer.next();
        if (opcode !== opcodes.text) continue;
        const message = JSON.parse(payload.toString()) as { id?: number };
        if (message.id === id) return payload.toString();
      }
    },
  };
}

/** A tool that says what became of the bytes in its arguments. */
function registerRead(mcp: Parameters<NonNullable<ServeOptions["register"]>>[0]): void {
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
}

const fileOf = (streamId: string, ref: object = {}): object => ({
  type: "image",
  mimeType: "x/y",
  data: "",
  binaryRef: { streamId, size: 5, ...ref },
});
const bytesOf = (streamId: string, text: string): Buffer =>
  frame(opcodes.binary, Buffer.concat([encodeStreamId(streamId), Buffer.from(text)]));

describe("incoming bytes", () => {
  test.each<[string, object, string[], string]>([
    ["what was announced", { checksum: sha256 }, ["he", "llo"], "hello"],
    ["nothing of nothing", { size: 0 }, [], ""],
    ["too much", {}, ["hello!"], "protocol"],
    ["another checksum", { checksum: "0".repeat(64) }, ["hello"], "corrupt"],
    ["one over the limit", { size: 2e6 }, ["hello"], "too_large"],
    [
      "more than the window at once",
      { size: 500_000, interleave: true },
      ["x".repeat(120_000)],
      "protocol",
    ],
  ])(
    "%s is an error by name to the tool, and the connection continues [BINARY/3.c.websocket/frames]",
    async (_, ref, chunks, text) => {
      const peer = await open(declared);
      const streamId = randomUUID();
      peer.text({
        jsonrpc: "2.0",
        id: "call",
        method: "tools/call",
        params: { name: "read", arguments: { files: [fileOf(streamId, ref)] } },
      });
      // in one write: no reader comes in between
      peer.write(Buffer.concat(chunks.map((chunk) => bytesOf(streamId, chunk))));
      for (;;) {
        const message = await peer.json();
        if (message["id"] !== "call") continue;
        expect(message).toMatchObject({ result: { content: [{ text }] } });
        break;
      }
      expect(await peer.ask("ping", {})).toContain("result");
    },
  );

  test("frames of streams that are unknown, over or without an id are dropped", async () => {
    const peer = await open(declared);
    const streamId = randomUUID();
    peer.write(bytesOf(streamId, "hello"));
    peer.write(frame(opcodes.binary, "short"));
    const files = [fileOf(streamId)];
    peer.text({
      jsonrpc: "2.0",
      id: "call",
      method: "tools/call",
      params: { name: "read", arguments: { files } },
    });
    peer.write(bytesOf(streamId, "hello"));
    expect(await peer.json()).toMatchObject({
      id: "call",
      result: { content: [{ text: "hello" }] },
    });
    peer.write(bytesOf(streamId, "hello"));
    expect(await peer.ask("tools/call", { name: "read", arguments: { files } })).toContain(
      "protocol",
    );
    expect(await peer.ask("ping", {})).toContain("result");
  });

  test("frames with next to nothing count as messages", async () => {
    const binary = { maxBinaryBytes: 1_000_000, windowBytes: 100_000 };
    const peer = await open(declared, {
      ws: { binary, messageRate: { perSecond: 0.01, burst: 20 } },
    });
    const streamId = randomUUID();
    peer.text({
      jsonrpc: "2.0",
      id: "call",
      method: "tools/call",
      params: { name: "read", arguments: { files: [fileOf(streamId, { size: 4_096 })] } },
    });
    // these are paid for
    for (let some = 0; some < 2; some += 1) peer.write(bytesOf(streamId, "x".repeat(2_048)));
    expect(await peer.json()).toMatchObject({ id: "call" });
    const endless = randomUUID();
    const files = [fileOf(endless)];
    peer.text({
      jsonrpc: "2.0",
      id: "endless",
      method: "tools/call",
      params: { name: "read", arguments: { files } },
    });
    for (let some = 0; some < 20; some += 1) peer.write(bytesOf(endless, ""));
    // bytes read together with the last of them are taken before the pause
    await expect.poll(() => peer.isHeldUp()).toBe(true);
    peer.text({ jsonrpc: "2.0", id: "ping", method: "ping" });
    let isAnswered = false;
    void peer.json().then(
      () => (isAnswered = true),
      () => {},
    );
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(isAnswered).toBe(false);
  });

  test("an invalid reference is an error of its request", async () => {
    const peer = await open(declared);
    const files = [fileOf("x")];
    expect(await peer.ask("tools/call", { name: "read", arguments: { files } })).toContain(
      "-32602",
    );
    expect(await peer.ask("ping", {})).toContain("result");
  });

  test.each([undefined, { supported: false }, { supported: true, preferredMode: "stream" }])(
    "a binary frame of a peer that declared %j closes with 1003",
    async (binaryTransfer) => {
      const peer = await open(binaryTransfer);
      peer.write(bytesOf(randomUUID(), "hello"));
      expect(await peer.closed()).toBe(1003);
    },
  );

  test("a sender without credit waits in the socket until a reader comes, and then continues", async () => {
    const size = 1_000_000;
    const mayRead = deferred();
    const peer = await open(declared, {
      register: (mcp) => {
        mcp.registerTool(
          "later",
          { inputSchema: z.object({ file: z.looseObject({}) }) },
          async ({ file }) => {
            const { body } = openBinary(file)!;
            await mayRead.promise;
            const { byteLength } = await new Response(body).arrayBuffer();
            return { content: [{ type: "text", text: String(byteLength) }] };
          },
        );
      },
    });
    const streamId = randomUUID();
    const file = fileOf(streamId, { size });
    peer.text({
      jsonrpc: "2.0",
      id: "call",
      method: "tools/call",
      params: { name: "later", arguments: { file } },
    });
    for (let sent = 0; sent < size; sent += 50_000)
      peer.write(bytesOf(streamId, "x".repeat(50_000)));
    // behind bytes that no reader takes: the whole connection waits
    peer.text({ jsonrpc: "2.0", id: "ping", method: "ping" });
    let isAnswered = false;
    const answered = peer.json().then((message) => {
      isAnswered = true;
      return message;
    });
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(isAnswered).toBe(false);
    mayRead.resolve();
    const messages = [await answered, await peer.json()];
    expect(messages.find(({ id }) => id === "call")).toMatchObject({
      result: { content: [{ text: String(size) }] },
    });
  });
});

describe("outgoing bytes", () => {
  const read = { uri, transferMode: "binary" };

  test("a peer that only knows the RFC gets frames with the stream's id [BINARY/3.c.websocket/frames] [BINARY/transports/websocket]", async () => {
    const peer = await open(declared);
    peer.text({ jsonrpc: "2.0", id: 1, method: "resources/read", params: read });
    const { result } = (await peer.json()) as {
      result: { contents: { binaryRef: { streamId: string; size: number } }[] };
    };
    const [{ binaryRef }] = result.contents as [{ binaryRef: { streamId: string; size: number } }];
    expect(binaryRef).toMatchObject({ size: bytes.length });
    const chunks: Buffer[] = [];
    for (let got = 0; got < bytes.length; got += chunks.at(-1)!.length) {
      const { opcode, payload } = await peer.next();
      expect(opcode).toBe(opcodes.binary);
      expect(payload.subarray(0, 16).equals(encodeStreamId(binaryRef.streamId))).toBe(true);
      chunks.push(payload.subarray(16));
    }
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
  });

  test("a peer that gives credit gets no more than that, and JSON in between", async () => {
    const windowBytes = 40_000;
    const interleaving = await openInterleaving(windowBytes);
    interleaving.text({ jsonrpc: "2.0", id: 1, method: "resources/read", params: read });
    const { result } = (await interleaving.json()) as {
      result: { contents: { binaryRef: { streamId: string } }[] };
    };
    const { streamId } = result.contents[0]!.binaryRef;
    let got = 0;
    const chunk = async (): Promise<void> => {
      got += (await interleaving.next()).payload.length - 16;
    };
    for (let frames = 0; frames < 2; frames += 1) await chunk();
    expect(got).toBe(windowBytes);
    // nothing but the answer comes before there is credit
    interleaving.text({ jsonrpc: "2.0", id: "ping", method: "ping" });
    expect(await interleaving.json()).toMatchObject({ id: "ping" });
    for (const bad of [
      { streamId, bytes: 1e9 },
      { streamId, bytes: -1 },
      { streamId: "x", bytes: 1 },
      {},
    ])
      interleaving.text({ jsonrpc: "2.0", method: BINARY_CREDIT_METHOD, params: bad });
    interleaving.text({ jsonrpc: "2.0", id: "ping", method: "ping" });
    expect(await interleaving.json()).toMatchObject({ id: "ping" });
    interleaving.text({
      jsonrpc: "2.0",
      method: BINARY_CREDIT_METHOD,
      params: { streamId, bytes: 5_000 },
    });
    await chunk();
    expect(got).toBe(windowBytes + 5_000);
    interleaving.text({
      jsonrpc: "2.0",
      method: BINARY_ABORT_METHOD,
      params: { streamId, reason: "interrupted" },
    });
    interleaving.text({
      jsonrpc: "2.0",
      method: BINARY_CREDIT_METHOD,
      params: { streamId, bytes: 5_000 },
    });
    interleaving.text({ jsonrpc: "2.0", id: "ping", method: "ping" });
    expect(await interleaving.json()).toMatchObject({ id: "ping" });
  });

  async function openInterleaving(
    windowBytes: number,
    options: ServeOptions = {},
  ): Promise<RawSocket> {
    const { port } = await serve({
      attach: { binary: binaryReads },
      ws: { binary: {} },
      ...options,
    });
    const peer = await rawSocket(port);
    const extensions = {
      "dev.sluice/binary-transfer": { ...declared, interleave: { windowBytes } },
    };
    peer.text({ ...initialize, params: { ...initialize.params, capabilities: { extensions } } });
    await peer.json();
    return peer;
  }

  const broken = (mcp: Parameters<NonNullable<ServeOptions["register"]>>[0]): void => {
    mcp.registerTool("broken", {}, async (ctx) => {
      const body = new ReadableStream<Uint8Array>({
        pull: (controller) => controller.error(new SluiceError("unavailable", "storage: gone")),
      });
      const file = { source: { body }, size: 1_000 };
      return {
        content: [await binaryContent(ctx, { type: "image", mimeType: "x/y", bytes: file })],
      };
    });
  };
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "broken" } };

  test("a stream that breaks is given up by name if the peer supports that, and the connection continues", async () => {
    const peer = await openInterleaving(40_000, { register: broken });
    peer.text(call);
    await peer.json();
    expect(await peer.json()).toMatchObject({
      method: BINARY_ABORT_METHOD,
      params: { reason: "unavailable" },
    });
    peer.text({ jsonrpc: "2.0", id: "ping", method: "ping" });
    expect(await peer.json()).toMatchObject({ id: "ping" });
  });

  test("a stream that breaks ends the connection if the peer does not", async () => {
    const peer = await open(declared, { register: broken });
    peer.text(call);
    expect(await peer.closed()).toBe(1011);
  });
});

test("a stream for which no credit comes is given up, and its permit is free again", async () => {
  const { port } = await serve({
    attach: { binary: binaryReads },
    ws: { binary: { idleMs: 20, maxStreams: 1 } },
  });
  const peer = await rawSocket(port);
  const extensions = {
    "dev.sluice/binary-transfer": { ...declared, interleave: { windowBytes: 4_096 } },
  };
  peer.text({ ...initialize, params: { ...initialize.params, capabilities: { extensions } } });
  await peer.json();
  for (const id of [1, 2]) {
    const params = { uri, transferMode: "binary" };
    peer.text({ jsonrpc: "2.0", id, method: "resources/read", params });
    expect(await peer.json()).toMatchObject({ id, result: { contents: [{ blob: "" }] } });
    await peer.next();
    expect(await peer.json()).toMatchObject({
      method: BINARY_ABORT_METHOD,
      params: { reason: "timeout" },
    });
  }
});
