import { SluiceError } from "@sluice/core";
import { BINARY_EXTENSION_ID, type BinaryRef } from "@sluice/core/internal";
import { binaryContent, openBinary } from "@sluice/binary-transfer";
import {
  type BinaryPeer,
  type BinaryPeerOptions,
  createBinaryPeer,
  decodeStreamId,
  encodeStreamId,
  outletTo,
} from "@sluice/binary-transfer/internal";
import { outletOf } from "../src/peer/outlet.ts";
import { describe, expect, onTestFinished, test, vi } from "vitest";

interface Ends {
  readonly server: BinaryPeer;
  readonly client: BinaryPeer;
  /** The arguments of a handler of the server. */
  readonly ctx: object;
}

/** Two ends that have met. */
function meet(options: Partial<BinaryPeerOptions> = {}): Ends {
  const ability = { mode: "stream" as const, maxBinaryBytes: 1_000, ...options };
  const server = createBinaryPeer({ ...ability, role: "server" });
  const client = createBinaryPeer({ ...ability, role: "client" });
  onTestFinished(() => {
    server.close(new Error("over"));
    client.close(new Error("over"));
  });
  const hello = client.sending({ id: 1, method: "initialize", params: { capabilities: {} } });
  server.received(JSON.parse(hello.text));
  client.received(JSON.parse(server.sending({ id: 1, result: { capabilities: {} } }).text));
  const { message } = server.received({ id: 2, method: "tools/call", params: {} });
  const { _meta } = message.params as { _meta?: object };
  return { server, client, ctx: { mcpReq: { _meta } } };
}

const bytes = Uint8Array.from({ length: 500 }, (_, i) => i % 251);
const picture = { type: "image", mimeType: "image/png", bytes } as const;
const result = (...content: readonly object[]): object => ({ id: 2, result: { content } });
const read = async (body: ReadableStream): Promise<Buffer> =>
  Buffer.from(await new Response(body).arrayBuffer());

/** Sends content to the client and gives its reading of it. */
function deliver({ server, client }: Ends, ...content: readonly object[]) {
  const { text, streams } = server.sending(result(...content));
  const { message, refs } = client.received(JSON.parse(text));
  return { text, streams, refs, content: message.result.content as object[] };
}

describe("content", () => {
  test("has its bytes beside the message, with a random id, its size and its SHA-256 [BINARY/2.content/binary-ref] [BINARY/2.content/may-checksum] [BINARY/security/should-random-ids]", async () => {
    const ends = meet();
    const { text, streams, content } = deliver(ends, await binaryContent(ends.ctx, picture));
    const wire = JSON.parse(text).result.content[0];
    expect(wire).toMatchObject({
      type: "image",
      transferMode: "binary",
      mimeType: "image/png",
      binaryRef: {
        streamId: expect.stringMatching(
          /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
        ),
        size: 500,
        checksum: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
    expect(streams.map(({ ref }) => ref)).toEqual([wire.binaryRef]);
    const opened = openBinary(content[0]!)!;
    expect(opened).toMatchObject({ mimeType: "image/png", size: 500, transferMode: "binary" });
    const incoming = ends.client.inbox.begin(wire.binaryRef.streamId, 500);
    void incoming.write(bytes);
    incoming.end();
    expect((await read(opened.body)).equals(bytes)).toBe(true);
    expect(ends.client.inbox.isExpected(wire.binaryRef.streamId)).toBe(false);
  });

  test("ids of streams are unlike each other in every place that is not the version's [BINARY/security/should-random-ids]", () => {
    const ids = [meet({ maxStreams: 64 }), meet({ maxStreams: 64 })].flatMap(({ ctx }) =>
      Array.from({ length: 64 }, () => {
        const { streamId } = outletOf(ctx)!.offer({
          source: { body: new ReadableStream() },
          size: 0,
        });
        return streamId;
      }),
    );
    expect(new Set(ids).size).toBe(128);
    // without the version and the variant
    const digits = ids.map((id) => id.replaceAll("-", "").replace(/^(.{12}).(.{3})./, "$1$2"));
    const kinds = Array.from(digits[0]!, (_, at) => new Set(digits.map((text) => text[at])).size);
    expect(Math.min(...kinds)).toBeGreaterThan(4);
  });

  test.each(["image", "audio", "blob"] as const)(
    "is base64 for a caller that negotiated nothing, and opens just the same: %s [BINARY/2.content/base64] [BINARY/compatibility/unsupporting-base64]",
    async (type) => {
      const content = await binaryContent({ mcpReq: {} }, { ...picture, type });
      expect(JSON.stringify(content)).toContain(Buffer.from(bytes).toString("base64"));
      expect(JSON.stringify(content)).not.toContain("binaryRef");
      const opened = openBinary(content)!;
      expect(opened).toMatchObject({ mimeType: "image/png", size: 500, transferMode: "base64" });
      expect((await read(opened.body)).equals(bytes)).toBe(true);
    },
  );

  test("it is base64 over the limit of the peer, and refused over that of base64", async () => {
    const { ctx } = meet({ maxBinaryBytes: 499 });
    expect(await binaryContent(ctx, picture)).toMatchObject({
      data: Buffer.from(bytes).toString("base64"),
    });
    await expect(binaryContent(ctx, { ...picture, maxBase64Bytes: 499 })).rejects.toMatchObject({
      code: "too_large",
      size: 500,
    });
  });

  test("is an embedded resource to an SDK if its type is blob, even from a peer with only the RFC", async () => {
    const ends = meet();
    const ours = deliver(
      ends,
      await binaryContent(ends.ctx, { ...picture, type: "blob", uri: "a:b" }),
    );
    expect(ours.content[0]).toMatchObject({ type: "resource", resource: { uri: "a:b", blob: "" } });
    expect(openBinary(ours.content[0]!)).toMatchObject({ transferMode: "binary" });
    const streamId = crypto.randomUUID();
    const literal = {
      type: "blob",
      transferMode: "binary",
      mimeType: "x/y",
      binaryRef: { streamId, size: 3 },
    };
    const { message } = ends.client.received(result(literal) as Record<string, any>);
    expect(message["result"].content[0]).toMatchObject({
      type: "resource",
      resource: { uri: `urn:uuid:${streamId}`, mimeType: "x/y", blob: "" },
    });
  });

  test("goes from a client to a server in the same way", async () => {
    const ends = meet();
    const argument = await binaryContent(outletTo(ends.client)!, picture);
    const call = { id: 3, method: "tools/call", params: { arguments: { argument } } };
    const { text, streams } = ends.client.sending(call);
    expect(streams).toHaveLength(1);
    const { message } = ends.server.received(JSON.parse(text));
    expect(openBinary(message.params.arguments.argument)).toMatchObject({ size: 500 });
  });

  test("without bytes there is nothing to open", () => {
    expect(openBinary({ type: "text", text: "hello" })).toBeUndefined();
  });

  test("opens nothing if its handle was made up, or used before", async () => {
    const ends = meet();
    const { content } = deliver(ends, await binaryContent(ends.ctx, picture));
    openBinary(content[0]!);
    expect(() => openBinary(content[0]!)).toThrow(SluiceError);
    const _meta = { [BINARY_EXTENSION_ID]: { binaryRef: {}, handle: crypto.randomUUID() } };
    expect(() => openBinary({ type: "image", data: "", _meta })).toThrow(/opened before/);
  });
});

describe("an outbox", () => {
  const offer = (ends: Ends, end?: (result: object) => void): BinaryRef =>
    outletOf(ends.ctx)!.offer({
      source: { body: new ReadableStream(), bytes },
      size: 500,
      ...(end && { end }),
    });

  test("sends a stream with the first message that names it, and no message that names it again", () => {
    const ends = meet();
    const binaryRef = offer(ends);
    const content = { type: "image", data: "", _meta: { [BINARY_EXTENSION_ID]: { binaryRef } } };
    expect(ends.server.sending(result(content)).streams).toHaveLength(1);
    const again = ends.server.sending(result(content));
    expect(again.streams).toEqual([]);
    expect(JSON.parse(again.text)).toMatchObject({ id: 2, error: { code: -32603 } });
    expect(() => ends.server.sending({ method: "notifications/x", params: { content } })).toThrow(
      /not waiting/,
    );
  });

  test("lets no handler announce bytes that are not there: the next message would be taken for them", () => {
    const ends = meet();
    const structuredContent = { binaryRef: { streamId: crypto.randomUUID(), size: 10 } };
    const sent = ends.server.sending({ id: 2, result: { content: [], structuredContent } });
    expect(JSON.parse(sent.text)).toMatchObject({ id: 2, error: { code: -32603 } });
  });

  test("is bounded, and releases a permit when its stream has ended", () => {
    const ends = meet({ maxStreams: 2 });
    const first = offer(ends);
    offer(ends);
    const ended = vi.fn<(result: object) => void>();
    expect(() => offer(ends, ended)).toThrow(expect.objectContaining({ code: "throttled" }));
    expect(ended).toHaveBeenCalledWith(expect.objectContaining({ outcome: "aborted" }));
    ends.server.outbox.claim(first.streamId)!.end({ outcome: "complete", bytes: 500 });
    expect(() => offer(ends)).not.toThrow();
  });

  test("discards bytes whose message never goes out, and those of a connection that ends", async () => {
    const ends = meet({ unsentMs: 5 });
    const late = vi.fn<(result: object) => void>();
    const { streamId } = offer(ends, late);
    await expect.poll(() => late.mock.calls).toMatchObject([[{ outcome: "aborted" }]]);
    expect(ends.server.outbox.claim(streamId)).toBeUndefined();
    const gone = vi.fn<(result: object) => void>();
    offer(ends, gone);
    ends.server.close(new Error("gone"));
    expect(gone).toHaveBeenCalledTimes(1);
    expect(outletOf(ends.ctx)).toBeUndefined();
  });

  test("ids and their 16 bytes are the same thing", () => {
    const id = "00112233-4455-6677-8899-aabbccddeeff";
    expect(Buffer.from(encodeStreamId(id)).toString("hex")).toBe(id.replaceAll("-", ""));
    expect(decodeStreamId(encodeStreamId(id))).toBe(id);
  });
});
