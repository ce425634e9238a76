// @module-tag slow
import { encodeStreamId } from "@sluice/binary-transfer/internal";
import { expect, test } from "vitest";
import { memoryGrowth } from "../../core/test/memory-growth.ts";
import { createBinaryChannel } from "../src/binary/binary-channel.ts";

const connections = process.env["SLUICE_DEEP"] ? 3_000 : 200;

const streamId = "11111111-1111-4111-8111-111111111111";

/** A peer that announces 64 KiB, sends a quarter of them and is gone; the application opens none of them. */
function connect(interleave: boolean): void {
  const channel = createBinaryChannel(
    "server",
    {},
    {
      sendText() {},
      sendBinary: async () => {},
      canPause: true,
      pauseUntil() {},
      breakOff() {},
      onError() {},
    },
  );
  const binaryRef = { streamId, size: 65_536, ...(interleave && { interleave }) };
  channel.read({
    method: "initialize",
    params: { capabilities: { binaryTransfer: { supported: true } } },
  });
  channel.read({
    method: "tools/call",
    id: 1,
    params: { content: [{ type: "image", binaryRef }] },
  });
  channel.readFrame(Buffer.concat([encodeStreamId(streamId), new Uint8Array(16_384)]));
  channel.close(new Error("gone"));
}

test.for([true, false])(
  `${connections} connections that break off within a transfer (interleave: %s) leave less than 1 MiB and 1 KiB each`,
  async (interleave) => {
    const grown = await memoryGrowth(async (count) => {
      for (let i = 0; i < count; i += 1) connect(interleave);
    }, connections);
    expect(grown).toBeLessThan(2 ** 20 + 1_024 * connections);
  },
);
