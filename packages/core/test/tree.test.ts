import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatTreeFrame, TreeReader, type TreeEvent } from "@sluice/core/internal";
import { demand, hostile, sha256, sound, tag } from "./hostile-trees.ts";

/** Events with the bytes of each file joined, however they were cut. */
function read(chunks: Iterable<Uint8Array>, reader = new TreeReader(demand)): unknown[] {
  const events: unknown[] = [];
  let content: Buffer | undefined;
  const take = (event: TreeEvent): void => {
    if (event.kind === "bytes") content = Buffer.concat([content ?? Buffer.alloc(0), event.bytes]);
    else {
      if (content) events.push(content.toString());
      content = undefined;
      events.push(event);
    }
  };
  for (const chunk of chunks) for (const event of reader.read(chunk)) take(event);
  reader.ensureEnded();
  return events;
}

const soundEvents = [
  { kind: "head", head: { i: 1, size: 5, ...tag } },
  "hello",
  { kind: "trailer", trailer: { ok: true, sha256 } },
  { kind: "refusal", refusal: { i: 0, error: { reason: "busy", retryAfterMs: 7 } } },
  { kind: "head", head: { i: 2, size: 0 } },
  { kind: "trailer", trailer: { ok: false } },
];

test("a response reads as it was written, whole and byte by byte", () => {
  const whole = Buffer.concat(sound);
  expect(read(sound)).toEqual(soundEvents);
  expect(read([whole])).toEqual(soundEvents);
  expect(read(Array.from(whole, (byte) => Buffer.from([byte])))).toEqual(soundEvents);
});

test("the cuts of a response into chunks change nothing", () => {
  const whole = Buffer.concat(sound);
  fc.assert(
    fc.property(fc.array(fc.nat(whole.length)), (cuts) => {
      const places = [0, ...cuts.toSorted((a, b) => a - b), whole.length];
      const chunks = places.slice(1).map((to, at) => whole.subarray(places[at], to));
      expect(read(chunks)).toEqual(soundEvents);
    }),
  );
});

test("a response that is cut after any byte but the last is interrupted", () => {
  const whole = Buffer.concat(sound);
  for (let end = 0; end < whole.length; end += 1)
    expect(() => read([whole.subarray(0, end)])).toThrow(
      expect.objectContaining({ code: "interrupted" }),
    );
});

test("more than forty kinds of hostile responses are in the table", () => {
  expect(Object.keys(hostile).length).toBeGreaterThanOrEqual(40);
});

describe.each(Object.entries(hostile))("a response with %s", (_, chunks) => {
  test("never ends, in one chunk or byte by byte", () => {
    const whole = Buffer.concat(chunks);
    for (const cut of [[whole], Array.from(whole, (byte) => Buffer.from([byte]))]) {
      const fault = expect.objectContaining({
        code: expect.stringMatching(/^(?:protocol|interrupted)$/),
      });
      expect(() => read(cut)).toThrow(fault);
    }
  });
});

test("a malformed frame is a fault at its last byte, before anything that follows", () => {
  for (const [name, chunks] of Object.entries(hostile)) {
    if (/beyond its JSON|HTML|JSON-RPC|fewer bytes|2,049|all files/.test(name)) continue;
    expect(() => read(chunks), name).toThrow(expect.objectContaining({ code: "protocol" }));
  }
});

test("a tag that is too long for a head is left out", () => {
  const frame = formatTreeFrame({ i: 0, size: 0, etag: "x".repeat(600) });
  expect(Buffer.from(frame.subarray(4)).toString()).toBe('{"i":0,"size":0}');
});
