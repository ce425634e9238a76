import { expect, test, vi } from "vitest";
import { FrameOutlet } from "../src/binary/frame-outlet.ts";

test("credit that comes before the platform says that a frame has left is credit", async () => {
  const size = 300_000;
  const windowBytes = 65_536;
  const streamId = crypto.randomUUID();
  const received: number[] = [];
  const outlet = new FrameOutlet(
    {
      // browsers do not say when a frame has left: their socket is asked from time to time
      async send(frame) {
        const bytes = frame.length - 16;
        received.push(bytes);
        expect(outlet.credit(streamId, bytes + 1)).toBe(false);
        expect(outlet.credit(streamId, bytes)).toBe(true);
        await Promise.resolve();
      },
      giveUp: vi.fn<() => void>(),
    },
    200,
  );
  const end = vi.fn<(result: unknown) => void>();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new Uint8Array(size));
      controller.close();
    },
  });
  await outlet.add(
    { ref: { streamId, size, interleave: true }, source: { body }, end },
    windowBytes,
  );
  expect(end).toHaveBeenCalledExactlyOnceWith({ outcome: "complete", bytes: size });
  expect(received.reduce((sum, bytes) => sum + bytes, 0)).toBe(size);
});
