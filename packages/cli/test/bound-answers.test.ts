import { expect, test } from "vitest";
import { boundAnswers } from "../src/server-calls/connect.ts";

const limit = 16 * 2 ** 20;

/** Reads an answer that gives `piece` again and again; tells how much of it came, and the error. */
async function readAll(
  type: string,
  piece: string,
  times: number,
): Promise<{ bytes: number; code?: unknown }> {
  const bytes = new TextEncoder().encode(piece);
  let left = times;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (left-- > 0) controller.enqueue(bytes);
      else controller.close();
    },
  });
  const answer = boundAnswers(new Response(body, { headers: { "content-type": type } }));
  let read = 0;
  try {
    for await (const chunk of answer.body!) read += (chunk as Uint8Array).length;
    return { bytes: read };
  } catch (error) {
    return { bytes: read, code: (error as { code?: unknown }).code };
  }
}

test.each(["application/json", "text/plain", ""])(
  "an answer without an end is an error after 16 MiB: %s",
  async (type) => {
    const { bytes, code } = await readAll(type, " ".repeat(2 ** 20), 64);
    expect(code).toBe("protocol");
    expect(bytes).toBeLessThanOrEqual(limit);
  },
);

test.each([
  ["one line", "x"],
  ["lines", "data: x\n"],
  ["lines with both line ends", "data: x\r\n"],
])("an event without an end is an error after 16 MiB: %s", async (_, line) => {
  const { bytes, code } = await readAll("text/event-stream", line.repeat(2 ** 17), 256);
  expect(code).toBe("protocol");
  expect(bytes).toBeLessThanOrEqual(limit);
});

test.each([
  ["\\n", "data: x\n\n"],
  ["\\r\\n", "data: x\r\n\r\n"],
  ["\\r", "data: x\r\r"],
])("events that end may come for ever, with line ends of %s", async (_, event) => {
  const piece = event.repeat(2 ** 17);
  // pieces that begin and end within an event
  const cut = piece.slice(-5) + piece.slice(0, -5);
  const { bytes, code } = await readAll("text/event-stream", cut, 16);
  expect(code).toBeUndefined();
  expect(bytes).toBe(cut.length * 16);
  expect(bytes).toBeGreaterThan(limit);
});
