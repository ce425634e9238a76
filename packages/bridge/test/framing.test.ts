import * as fc from "fast-check";
import { createEventReader } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { answer, bytesOf, cutAt, openBench, spool } from "./spooling.ts";
import { createJsonSpooler } from "../src/spool/json-spooler.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const long = "x".repeat(200);

test("events without long strings pass byte for byte, with any line ends and cuts", async () => {
  await using bench = await openBench();
  const lineEnd = fc.constantFrom("\n", "\r", "\r\n");
  const line = fc.constantFrom(
    "data: {}",
    'data:{"a":1,',
    'data: "b":2}',
    "data",
    ": note",
    "id: 7",
    "event:x",
    "",
    "",
    "dat: a",
    "datas: b",
    "\u{feff}data: 1",
    "é",
  );
  const stream = fc.array(fc.tuple(line, lineEnd), { maxLength: 20 });
  const cuts = fc.array(fc.nat(300), { maxLength: 6 });
  const property = fc.asyncProperty(stream, cuts, async (lines, places) => {
    const text = lines.flat().join("");
    const { length } = Buffer.from(text);
    const chunks = cutAt(
      text,
      places.map((place) => Math.min(place, length)),
    );
    expect(await spool(bench, chunks, { framing: "events" })).toBe(text);
  });
  await fc.assert(property, { numRuns: isDeep ? 20_000 : 50 });
});

test("the LF of a CR that ended an event and a chunk does not wait for the next event", async () => {
  await using bench = await openBench();
  const { folder, spooled } = bench;
  const limits = { inlineBytes: 100, maxBytes: 1_000 };
  const spooler = createJsonSpooler({ target: folder, spooled, framing: "events", ...limits });
  const given = async (text: string): Promise<string> =>
    Buffer.concat(await spooler.write(Buffer.from(text))).toString();
  expect(await given("data: {}\r\n\r")).toBe("data: {}\r\n\r");
  expect(await given("\n")).toBe("\n");
  expect(await given("data: {}\r")).toBe("");
  expect(await given("\n")).toBe("");
  expect(await given("\r\n")).toBe("data: {}\r\n\r\n");
});

test(
  "the data of an event is one text, however its lines end and wherever it is cut",
  { tags: "slow" },
  async () => {
    await using bench = await openBench();
    for (const end of ["\n", "\r", "\r\n"])
      for (const mark of isDeep ? ["", "\u{feff}"] : ["\u{feff}"])
        for (const space of isDeep ? ["", " "] : [" "]) {
          const json = answer({ text: long }).replace('"result":', `${end}data:${space}"result":`);
          const event = [`${mark}data:${space}${json}`, "id: 7", `: note`, "", ""].join(end);
          for (let at = 0; at <= Buffer.byteLength(event); at += 1) {
            // a cut in each place of the frame, and in a few of the string
            if (at > 60 && at < 230 && at % 40 !== 0) continue;
            bench.spooled.clear();
            const given = await spool(bench, cutAt(event, [at]), { framing: "events" });
            const [file] = bench.spooled.values();
            expect(given).toBe(event.replace(long, file!.id));
          }
        }
  },
);

test("an event that is changed is read as before by a reader of events", async () => {
  await using bench = await openBench();
  const event = `id: 7\r\nevent: message\r\nretry: 10\r\ndata: ${answer({ text: long })}\r\n\r\n`;
  const given = await spool(bench, [event], { framing: "events", maxBytes: 1 });
  const [read] = createEventReader({ operation: "test" }).read(Buffer.from(given));
  expect(read).toMatchObject({ id: "7", event: "message", retryMs: 10 });
  expect(JSON.parse(read!.data!)).toMatchObject({ id: 1, error: { code: -32_603 } });
});

test("lines pass byte for byte, with what is between them", async () => {
  await using bench = await openBench();
  const text = `\n${answer({})}\r\n\n no JSON \n[]\n{"half":`;
  expect(await spool(bench, bytesOf(text), { framing: "lines" })).toBe(text);
});

test("a fault in one line does not reach the next", async () => {
  await using bench = await openBench();
  const lines = [
    "{{[",
    `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}`,
    '"\\',
    answer({ text: long }, 2),
  ];
  const given = await spool(bench, [`${lines.join("\n")}\n`], { framing: "lines" });
  const [file] = bench.spooled.values();
  expect(JSON.parse(given.split("\n")[3]!)).toMatchObject({ id: 2, result: { text: file!.id } });
  expect(bench.names()).toHaveLength(1);
});

test("a document may begin with a byte order mark", async () => {
  await using bench = await openBench();
  const given = await spool(bench, bytesOf(`\u{feff}${answer({ text: long })}`));
  const [file] = bench.spooled.values();
  expect(await new Response(given).json()).toMatchObject({ result: { text: file!.id } });
});
