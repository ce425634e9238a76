import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import { decodeContent, decodeHead } from "../src/content/content-coding.ts";

const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, at) => at % 251));

function bodyOf(content: Uint8Array) {
  let isCancelled = false;
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = content.subarray(at, (at += 1_000));
      if (chunk.length > 0) controller.enqueue(Uint8Array.from(chunk));
      else controller.close();
    },
    cancel: () => void (isCancelled = true),
  });
  return { body, isCancelled: () => isCancelled };
}

async function all(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const collected: Uint8Array[] = [];
  for await (const chunk of chunks) collected.push(chunk);
  return Buffer.concat(collected);
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe.each(["Node.js", "a runtime without node:zlib"])("in %s", (runtime) => {
  const start = (): void => {
    if (runtime !== "Node.js")
      vi.spyOn(process, "getBuiltinModule").mockImplementation(() => undefined);
  };

  test.each([
    ["gzip", gzipSync(bytes)],
    ["deflate", deflateSync(bytes)],
    ["deflate, gzip", gzipSync(deflateSync(bytes))],
  ])("%s is taken off, whole and from its first bytes alone", async (coding, stored) => {
    start();
    expect(bytes.equals(await all(decodeContent(bodyOf(stored).body, coding)))).toBe(true);
    const head = await decodeHead(stored.subarray(0, stored.length / 2), coding, 100);
    expect(bytes.subarray(0, 100).equals(head!)).toBe(true);
  });

  test("a reader that leaves cancels the body", async () => {
    start();
    // incompressible, so that much of it is not read yet
    const noise = Buffer.from(Array.from({ length: 500_000 }, (_, at) => (at * at * 31) % 256));
    const { body, isCancelled } = bodyOf(gzipSync(noise, { level: 0 }));
    for await (const chunk of decodeContent(body, "gzip")) if (chunk.length > 0) break;
    await vi.waitFor(() => expect(isCancelled()).toBe(true));
  });

  test("a body that is not coded as declared is invalid_argument", async () => {
    start();
    await expect(all(decodeContent(bodyOf(bytes).body, "gzip"))).rejects.toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining("resources/stream"),
    });
  });

  test("a coding that is not known is refused before anything is read", async () => {
    start();
    const unknown = runtime === "Node.js" ? "compress" : "br";
    expect(() => decodeContent(bodyOf(brotliCompressSync(bytes)).body, unknown)).toThrow(
      `stored as ${unknown}: use resources/stream`,
    );
    expect(await decodeHead(bytes, unknown, 10)).toBeUndefined();
  });
});
