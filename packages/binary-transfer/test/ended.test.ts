// @module-tag slow
import { openBinary } from "@sluice/binary-transfer";
import { createBinaryFetch } from "@sluice/binary-transfer/client";
import { createBinaryPeer } from "@sluice/binary-transfer/internal";
import { describe, expect, test } from "vitest";
import { memoryGrowth } from "../../core/test/memory-growth.ts";

const connections = process.env["SLUICE_DEEP"] ? 3_000 : 200;

/** A connection that announces `size` bytes, brings `sentBytes` of them, and ends. Gives the content that the application has. */
function connection(size: number, sentBytes: number, ref: object = {}): object {
  const peer = createBinaryPeer({
    role: "server",
    mode: "stream",
    maxBinaryBytes: 2 ** 26,
    windowBytes: 2 ** 26,
    declared: { binaryTransfer: { supported: true } },
  });
  const streamId = crypto.randomUUID();
  const content = { type: "image", binaryRef: { streamId, size, ...ref } };
  const { message } = peer.received({ method: "x", params: { content } });
  const incoming = peer.inbox.begin(streamId);
  void incoming.write(new Uint8Array(sentBytes).fill(7));
  if (sentBytes === size) incoming.end();
  peer.close(new Error("gone"));
  return message.params.content;
}

/** The result of content that the application opens after its connection ended. */
async function late(content: object): Promise<string> {
  try {
    const { body } = openBinary(content)!;
    const bytes = new Uint8Array(await new Response(body).arrayBuffer());
    return bytes.length === 0 || bytes.at(-1) === 7 ? `${bytes.length} bytes` : "other bytes";
  } catch (error) {
    return (error as { code: string }).code;
  }
}

describe("a transfer that ended with its connection before the application opened it", () => {
  test("is there, once, when all of it came, and else says that it was interrupted", async () => {
    const whole = connection(500, 500);
    const half = connection(500, 499);
    const empty = connection(0, 0);
    expect(await late(whole)).toBe("500 bytes");
    expect(await late(half)).toBe("interrupted");
    expect(await late(empty)).toBe("0 bytes");
    for (const content of [whole, half, empty]) expect(await late(content)).toBe("expired");
  });

  test("is one of at most 1,024 that a process remembers, the newest ones", async () => {
    const contents = Array.from({ length: 1_100 }, () => connection(500, 499));
    const outcomes = await Promise.all(contents.map(late));
    expect(outcomes.slice(0, 76)).toEqual(Array.from({ length: 76 }, () => "expired"));
    expect(outcomes.slice(76)).toEqual(Array.from({ length: 1_024 }, () => "interrupted"));
  });

  test("is one of those whose bytes fit in 32 MiB, the newest ones", async () => {
    const contents = Array.from({ length: 6 }, () => connection(2 ** 23, 2 ** 23));
    const outcomes = await Promise.all(contents.map(late));
    expect(outcomes.filter((outcome) => outcome === "expired")).toHaveLength(2);
    expect(new Set(outcomes.slice(2))).toEqual(new Set([`${2 ** 23} bytes`]));
    const more = 2 ** 25 + 1;
    expect(await late(connection(more, more))).toBe(`${more} bytes`);
  });
});

test("text in place of a checksum is not kept", async () => {
  const grown = await memoryGrowth(async (count) => {
    for (let i = 0; i < count; i += 1)
      // neither shared by its copies nor outside of the heap, as longer texts are
      connection(500, 499, { checksum: Buffer.alloc(2 ** 19, `${i} `).toString("latin1") });
  }, 40);
  expect(grown).toBeLessThan(2 ** 23);
});

test(`${connections} answers of several parts that break off leave less than 1 MiB and 1 KiB each`, async () => {
  const streamId = "11111111-1111-4111-8111-111111111111";
  const contents = [{ uri: "x:y", binaryRef: { streamId, size: 65_536 } }];
  const capabilities = { binaryTransfer: { supported: true, supportedModes: ["multipart"] } };
  const rpc = (id: number, member: object): string =>
    JSON.stringify({ jsonrpc: "2.0", id, ...member });
  const lines = ["--b", "Content-Type: application/json", "", rpc(1, { result: { contents } })];
  const text = [...lines, "--b", `Content-ID: <${streamId}>`, "", "x".repeat(30_000)].join("\r\n");
  const ask = async (): Promise<void> => {
    const binary = createBinaryFetch({
      fetch: async (_url, init) =>
        (init!.body as string).includes("initialize")
          ? new Response(rpc(0, { result: { capabilities } }), {
              headers: { "content-type": "application/json" },
            })
          : new Response(text, { headers: { "content-type": "multipart/mixed; boundary=b" } }),
    });
    for (const [id, method] of ["initialize", "resources/read"].entries())
      await binary.fetch("http://x/", { method: "POST", body: rpc(id, { method, params: {} }) });
    binary.close();
  };
  const grown = await memoryGrowth(async (count) => {
    for (let i = 0; i < count; i += 1) await ask();
  }, connections);
  expect(grown).toBeLessThan(2 ** 20 + 1_024 * connections);
});
