import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { BINARY_EXTENSION_ID } from "@sluice/core/internal";
import { binaryReads } from "@sluice/binary-transfer";
import {
  type BinaryPeer,
  createBinaryPeer,
  type OutgoingStream,
} from "@sluice/binary-transfer/internal";
import { createSluice, type AuditRecord, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";

const uri = "files://demo/a.bin";
const bytes = Uint8Array.from({ length: 12 }, (_, at) => at);

interface Reading {
  readonly peer: BinaryPeer;
  readonly records: AuditRecord[];
  /** Answers to `resources/read`, and what goes beside them. */
  readonly read: (params?: object) => Promise<{
    readonly content: Record<string, any>;
    readonly error?: { readonly data?: { readonly reason?: string } };
    readonly streams: readonly OutgoingStream[];
  }>;
}

function serve(options: Partial<SluiceOptions> = {}, maxBinaryBytes = 1_000): Reading {
  const records: AuditRecord[] = [];
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": bytes }),
    baseUri: "files://demo/",
    keys: "ephemeral",
    endpoint: "http://127.0.0.1/mcp",
    anonymous: true,
    audit: (record) => void records.push(record),
    onWarning: () => {},
    ...options,
  } as SluiceOptions);
  const handler = createMcpHandler(() =>
    sluice.attach(new McpServer({ name: "test", version: "1.0.0" }), { binary: binaryReads }),
  );
  const peer = createBinaryPeer({
    role: "server",
    mode: "stream",
    maxBinaryBytes,
    declared: { binaryTransfer: { supported: true } },
  });
  onTestFinished(() => peer.close(new Error("over")));
  return {
    peer,
    records,
    async read(params = { transferMode: "binary" }) {
      const call = { jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri, ...params } };
      const { message: parsedBody } = peer.received(call);
      const headers = {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
      };
      const init = { method: "POST", headers, body: JSON.stringify(parsedBody) };
      const response = await handler.fetch(new Request("http://127.0.0.1/mcp", init), {
        parsedBody,
      });
      const answer = await response.text();
      const json = answer.startsWith("{") ? answer : /^data: ?(\{.*\})$/m.exec(answer)![1]!;
      const { text, streams } = peer.sending(JSON.parse(json) as object);
      const { result, error } = JSON.parse(text);
      return { content: result?.contents[0], error, streams };
    },
  };
}

test("a read that asks for bytes gets them beside its answer, and one record when they are through [BINARY/4.read/binary-ref]", async () => {
  const { read, records } = serve();
  const { content, streams } = await read();
  const { binaryRef } = content;
  expect(content).toMatchObject({ uri, blob: "", binaryRef: { size: 12 } });
  expect(streams.map(({ ref }) => ref)).toEqual([binaryRef]);
  expect(binaryRef.streamId).toMatch(/^[0-9a-f-]{36}$/);
  expect(records).toEqual([]);
  const [stream] = streams;
  const got =
    stream!.source.bytes ?? new Uint8Array(await new Response(stream!.source.body).arrayBuffer());
  expect(Buffer.from(got).equals(bytes)).toBe(true);
  stream!.end({ outcome: "complete", bytes: 12 });
  expect(records).toMatchObject([{ action: "read", uri, outcome: "complete", bytes: 12 }]);
});

test.each([
  ["that does not ask", {}, 1_000],
  [
    "of a part",
    { transferMode: "binary", _meta: { "dev.sluice/resource-streaming": { range: "bytes 0-" } } },
    1_000,
  ],
  ["over the limit", { transferMode: "binary" }, 11],
])(
  "a read %s is answered inside the JSON, with one record [BINARY/4.read/transfer-mode]",
  async (_what, params, limit) => {
    const { read, records } = serve({}, limit);
    const { content, streams } = await read(params);
    expect(content["blob"]).toBe(Buffer.from(bytes).toString("base64"));
    expect(JSON.stringify(content)).not.toContain(BINARY_EXTENSION_ID);
    expect(streams).toEqual([]);
    expect(records).toMatchObject([{ action: "read", outcome: "complete", bytes: 12 }]);
  },
);

test("it is too large over both limits", async () => {
  const { read } = serve({ maxReadBytes: 11 }, 11);
  expect((await read()).error).toMatchObject({ data: { reason: "too_large" } });
});

test("access rules hold for bytes as they do for base64", async () => {
  const { read, records } = serve({ access: () => "hide" });
  expect((await read()).error).toMatchObject({ data: { reason: "not_found" } });
  expect(records).toMatchObject([{ outcome: "denied", bytes: 0 }]);
});

test("bytes count as open streams until they are through, even if their message is never sent", async () => {
  const { read, peer } = serve({ limits: { streams: { perProcess: 1 } } });
  const { streams } = await read();
  expect((await read()).error).toMatchObject({ data: { reason: "busy" } });
  streams[0]!.end({ outcome: "aborted", bytes: 0 });
  expect((await read()).streams).toHaveLength(1);
  peer.close(new Error("gone"));
});

test("a connection that is gone gets base64, which is dropped", async () => {
  const { read, peer, records } = serve();
  const before = peer.received({ id: 1, method: "resources/read", params: { uri } });
  expect(before.message.params).toHaveProperty("_meta");
  peer.close(new Error("gone"));
  expect((await read()).streams).toEqual([]);
  expect(records).toMatchObject([{ outcome: "complete" }]);
});

test("a connection that goes while its resource is opened keeps no place", async () => {
  const memory = createMemoryBackend({ "a.bin": bytes });
  let leaver: BinaryPeer | undefined;
  const storage = {
    ...memory,
    async open(...asked: Parameters<typeof memory.open>) {
      leaver?.close(new Error("gone"));
      return memory.open(...asked);
    },
  };
  const limits = { streams: { perProcess: 1 } };
  const { read, peer, records } = serve({ storage, limits, onError: () => {} });
  leaver = peer;
  expect((await read()).error).toBeDefined();
  expect(records).toMatchObject([{ outcome: "aborted", bytes: 0 }]);
  // the place is that of the process: a read inside the JSON also takes it
  expect((await read({})).content["blob"]).toBe(Buffer.from(bytes).toString("base64"));
});
