import { openBinary } from "@sluice/binary-transfer";
import { createBinaryPeer, readMultipart, receiveParts } from "@sluice/binary-transfer/internal";
import { expect, onTestFinished, test } from "vitest";

const chunk = new Uint8Array(65_536);
const chunks = 256;
const size = chunks * chunk.length;

/** A message that is there as a whole: each read is answered at once. */
function* messageOf(streamId: string): Generator<Uint8Array> {
  const head = `--b\r\nContent-Type: x/y\r\nContent-ID: <${streamId}>\r\nContent-Length: ${size}\r\n\r\n`;
  yield Buffer.from(head);
  for (let n = 0; n < chunks; n += 1) yield chunk;
  yield Buffer.from("\r\n--b--\r\n");
}

async function readWhole(body: ReadableStream<Uint8Array>): Promise<number> {
  let bytes = 0;
  for await (const part of body as unknown as AsyncIterable<Uint8Array>) bytes += part.length;
  return bytes;
}

/** Turns that others have during `work`. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let isOver = false;
  let turns = 0;
  const ticking = (async () => {
    // oxlint-disable-next-line no-unmodified-loop-condition -- its end modifies it
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
  })();
  await work;
  isOver = true;
  await ticking;
  return turns;
}

test("bytes that come faster than a reader takes them leave others their turn", async () => {
  const peer = createBinaryPeer({
    role: "server",
    mode: "multipart",
    maxBinaryBytes: size,
    declared: { binaryTransfer: { supported: true } },
  });
  onTestFinished(() => peer.close(new Error("over")));
  const streamId = crypto.randomUUID();
  const binaryRef = { streamId, size };
  const { message, refs } = peer.received({
    method: "x",
    params: { content: { type: "image", binaryRef } },
  });
  const { body } = openBinary(message.params.content)!;
  const bytes = messageOf(streamId);
  const reader = readMultipart(async () => bytes.next().value as Uint8Array | undefined, "b");
  const receiving = receiveParts(reader, { inbox: peer.inbox, refs });
  const turns = await turnsDuring(
    Promise.all([receiving, readWhole(body)]).then((both) => expect(both).toEqual([true, size])),
  );
  expect(turns).toBeGreaterThanOrEqual(size / 2 ** 18);
});

test("a reader that never stops leaves them none", async () => {
  const bytes = messageOf(crypto.randomUUID());
  const reader = readMultipart(async () => bytes.next().value as Uint8Array | undefined, "b");
  const turns = await turnsDuring(
    (async () => {
      const part = (await reader.next())!;
      while (await part.read());
    })(),
  );
  expect(turns).toBeLessThan(3);
});
