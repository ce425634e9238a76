import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { LineWriter } from "../src/upstream/line-transport.ts";

const message = (id: number) => ({ jsonrpc: "2.0" as const, id, method: "tools/call" });

/** A stream whose reader takes some lines, and leaves the next one unread. */
function streamThatTakes(lines: number) {
  const given: string[] = [];
  const stream = new Writable({
    highWaterMark: 10,
    write(chunk: Buffer, _encoding, done) {
      given.push(chunk.toString());
      if (given.length <= lines) setImmediate(done);
    },
  });
  return { stream, given, writer: new LineWriter(stream) };
}

test("a message that was read whole counts as sent, whatever becomes of those behind it", async () => {
  const { stream, given, writer } = streamThatTakes(1);
  const sent = writer.write(message(1));
  const unsent = [writer.write(message(2)), writer.write(message(3))].map((writing) =>
    writing.catch((error: { code: string }) => error.code),
  );
  await expect.poll(() => given).toHaveLength(2);
  stream.destroy();
  await sent;
  expect(await Promise.all(unsent)).toEqual(["unavailable", "unavailable"]);
});

test("many messages that wait for a reader have one listener", async () => {
  const { stream, writer } = streamThatTakes(100);
  await Promise.all(Array.from({ length: 100 }, (_, id) => writer.write(message(id))));
  expect(stream.listenerCount("close") + stream.listenerCount("drain")).toBe(1);
});
