// @module-tag slow
import { createHash } from "node:crypto";
import { readFileSync, unlinkSync } from "node:fs";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { cutAt, openBench, restore, spool } from "./spooling.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const numRuns = isDeep ? 20_000 : 30;

/** Any string without a surrogate alone, with many characters that JSON escapes. */
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.string({
    unit: fc.constantFrom('"', "\\", "/", "\n", "\u0000", "é", "😀", "a"),
    maxLength: 60,
  }),
);
const base64 = fc
  .uint8Array({ maxLength: 60 })
  .map((bytes) => Buffer.from(bytes).toString("base64"));
const member = fc.constantFrom("blob", "data", "text", "a", "méthode", 'q"', "\u0000");
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    base64,
    fc.integer(),
    fc.constantFrom(true, null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(member, tie("value"), { maxKeys: 4 }),
  ),
}));

/** Writes some characters of strings as escapes. */
function escapeMore(json: string, seed: number): string {
  let state = seed;
  const next = (): number => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31);
  return json.replaceAll(/"(?:[^"\\]|\\.)*"/g, (string) =>
    string.replaceAll(/\\u[0-9a-f]{4}|\\.|[^"\\]/gsu, (unit) => {
      if (unit.startsWith("\\") || next() % 3 > 0) return unit;
      if (unit === "/") return "\\/";
      return unit
        .split("")
        .map((half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`)
        .join("");
    }),
  );
}

/** The framings, each with the way to write and to read a message in it. */
const framings = {
  document: { write: (json: string) => json, read: (framed: string) => framed },
  lines: { write: (json: string) => `${json}\n`, read: (framed: string) => framed },
  events: {
    write: (json: string) => `: note\r\nid: 7\r\ndata: ${json}\r\n\r\n`,
    read: (framed: string) => framed.split("\r\n")[2]!.slice("data: ".length),
  },
};

for (const [name, { write, read }] of Object.entries(framings))
  test(`${name}: the rest and the files together are the message, however it is cut`, async () => {
    await using bench = await openBench();
    const inline = fc.integer({ min: 3, max: 40 });
    const cuts = fc.array(fc.nat(4_000), { maxLength: 12 });
    const property = fc.asyncProperty(
      value,
      cuts,
      fc.nat(),
      inline,
      async (result, at, seed, inlineBytes) => {
        const inner = escapeMore(JSON.stringify({ result }), seed);
        const escaped = `{"result":${inner},"jsonrpc":"2.0","id":1}`;
        const said = JSON.parse(escaped) as unknown;
        const framed = write(escaped);
        const length = Buffer.byteLength(framed);
        const chunks = cutAt(
          framed,
          at.map((place) => place % length),
        );
        const framing = name as keyof typeof framings;
        const given = await spool(bench, chunks, { framing, inlineBytes });
        expect(restore(JSON.parse(read(given)), bench.spooled)).toEqual(said);
        for (const { place, sha256, bytes } of bench.spooled.values()) {
          const file = readFileSync(place);
          expect(file.length).toBe(bytes);
          expect(createHash("sha256").update(file).digest("hex")).toBe(sha256);
        }
        expect(bench.names()).toHaveLength(bench.spooled.size);
        bench.spooled.clear();
        for (const each of await bench.folder.list()) unlinkSync(each.path);
      },
    );
    await fc.assert(property, { numRuns });
  });
