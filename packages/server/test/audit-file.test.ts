import { appendFile, mkdtemp, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditRecord } from "@sluice/server";
import { formatHead, parseHead } from "@sluice/server/internal/node";
import { openAuditFile, verifyAuditFiles } from "@sluice/server/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chainLine, chainStart, openedEvent } from "../src/audit/audit-chain.ts";

// every character when deep
const step = process.env["SLUICE_DEEP"] ? 1 : 37;

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-audit-"));
});
afterAll(() => rm(root, { recursive: true }));

let count = 0;
const newPath = (): string => join(root, `${(count += 1)}.log`);

const recordOf = (n: number): AuditRecord => ({
  id: `op-${n}`,
  time: 1_700_000_000_000 + n,
  action: "download",
  outcome: "complete",
  uri: `files://demo/${n}-ü.bin`,
  bytes: n,
  durationMs: 1,
});

/** Writes records as one process does, and ends. */
async function write(path: string, from: number, to: number): Promise<void> {
  const { sink, close } = await openAuditFile({ path, sync: "never" });
  for (let n = from; n < to; n++) await sink(recordOf(n));
  await close();
}

async function written(records: number): Promise<{ path: string; lines: string[] }> {
  const path = newPath();
  await write(path, 0, records);
  return { path, lines: (await readFile(path, "utf8")).trimEnd().split("\n") };
}

const problems = async (...paths: string[]): Promise<string[]> =>
  (await verifyAuditFiles(paths)).findings.map(({ problem, line }) => `${problem} at ${line}`);

test("records are kept in the order of the calls, each naming the one before it", async () => {
  const path = newPath();
  const { sink, close } = await openAuditFile({ path });
  await Promise.all(Array.from({ length: 200 }, async (_, n) => sink(recordOf(n))));
  await close();
  const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
  const [opened, ...records] = lines.map((line) => JSON.parse(line));
  expect(opened).toMatchObject({ seq: 1, prev: "0".repeat(64), event: "opened", format: 1 });
  expect(records).toMatchObject(Array.from({ length: 200 }, (_, n) => recordOf(n)));
  const verdict = await verifyAuditFiles([path]);
  expect(verdict).toMatchObject({ lines: 201, continues: { seq: 0 }, findings: [] });
  expect(parseHead(formatHead(verdict.head))).toEqual(verdict.head);
  expect(await readFile(`${path}.head`, "utf8")).toBe(`${formatHead(verdict.head)}\n`);
});

test("a line in which one character is another one is found, wherever it is", async () => {
  const { path, lines } = await written(3);
  const whole = `${lines.join("\n")}\n`;
  for (let at = 0; at < whole.length; at += step) {
    const other = whole[at] === "7" ? "8" : "7";
    await writeFile(path, whole.slice(0, at) + other + whole.slice(at + 1));
    expect(await problems(path), `character ${at}`).not.toEqual([]);
  }
  await writeFile(path, whole);
  expect(await problems(path)).toEqual([]);
});

test("an altered line is named, and only that one", async () => {
  const { path, lines } = await written(5);
  lines[2] = lines[2]!.replace('"complete"', '"denied"');
  await writeFile(path, `${lines.join("\n")}\n`);
  expect(await problems(path)).toEqual(["altered at 3"]);
  lines[2] = "garbage";
  await writeFile(path, `${lines.join("\n")}\n`);
  expect(await problems(path)).toEqual(["altered at 3"]);
});

test("a line that was altered and given a hash of its own does not fit the next one", async () => {
  const { path, lines } = await written(5);
  const { seq, prev, hash: _hash, ...content } = JSON.parse(lines[2]!);
  const forged = chainLine(
    { seq: seq - 1, hash: prev },
    { ...content, bytes: 0, uri: "files://x" },
  );
  lines[2] = forged.text;
  await writeFile(path, `${lines.join("\n")}\n`);
  expect(await problems(path)).toEqual(["altered at 4"]);
});

test("a removed line is found: in the middle, at the beginning, several at once", async () => {
  const { path, lines } = await written(6);
  const without = (from: number, to: number): Promise<void> =>
    writeFile(path, `${lines.toSpliced(from, to - from).join("\n")}\n`);
  await without(3, 4);
  expect(await problems(path)).toEqual(["removed at 4"]);
  await without(0, 2);
  expect(await problems(path)).toEqual(["removed at 1"]);
  await without(2, 5);
  expect((await verifyAuditFiles([path])).findings[0]?.message).toContain("3 missing");
});

test("lines in another order are found, also a line that stands there twice", async () => {
  const { path, lines } = await written(6);
  const swapped = lines.with(2, lines[3]!).with(3, lines[2]!);
  await writeFile(path, `${swapped.join("\n")}\n`);
  expect(await problems(path)).toEqual(["removed at 3", "reordered at 4"]);
  await writeFile(path, `${lines.toSpliced(3, 0, lines[2]!).join("\n")}\n`);
  expect(await problems(path)).toEqual(["reordered at 4"]);
});

test("a file whose end is missing is found, to the line and to the byte", async () => {
  const { path, lines } = await written(6);
  await writeFile(path, `${lines.slice(0, -1).join("\n")}\n`);
  expect(await problems(path)).toEqual(["truncated at 6"]);
  await writeFile(path, "");
  expect(await problems(path)).toEqual(["truncated at 0"]);
  const whole = `${lines.join("\n")}\n`;
  await writeFile(path, whole.slice(0, -1));
  expect(await problems(path)).toContain("truncated at 7");
});

test.each([
  [2, "format 2"],
  [undefined, "no format"],
])(
  "a file of another format (%s) is neither checked nor continued, and the sentence says why",
  async (format, words) => {
    const path = newPath();
    const line = chainLine(chainStart, { event: "opened", ...(format && { format }) });
    const record = chainLine(line.head, recordOf(1));
    const text = `${line.text}\n${record.text}\n`;
    await writeFile(path, text);
    await writeFile(`${path}.head`, `${formatHead(record.head)}\n`);
    const refusal = { code: "unsupported", message: expect.stringContaining(`has ${words}, and`) };
    await expect(verifyAuditFiles([path])).rejects.toMatchObject(refusal);
    await expect(openAuditFile({ path })).rejects.toMatchObject(refusal);
    expect(await readFile(path, "utf8")).toBe(text);
    // beside it, one of this version is as it was
    const ours = await written(2);
    expect(await problems(ours.path)).toEqual([]);
  },
);

test("a chain written anew is found by the head beside it, or by one that was noted elsewhere", async () => {
  const { path } = await written(6);
  const { head: expect_ } = await verifyAuditFiles([path]);
  let head = chainStart;
  let text = "";
  for (const content of [openedEvent, ...Array.from({ length: 9 }, (_, n) => recordOf(n + 50))]) {
    const line = chainLine(head, content);
    text += `${line.text}\n`;
    head = line.head;
  }
  await writeFile(path, text);
  expect(await problems(path)).toEqual(["altered at 7", "unchecked at 10"]);
  await writeFile(`${path}.head`, formatHead(head));
  expect(await problems(path)).toEqual([]);
  const { findings } = await verifyAuditFiles([path], { expect: expect_ });
  expect(findings).toMatchObject([{ problem: "altered", line: 7 }]);
});

test("a chain written anew is not gone on with, which would make it the noted one", async () => {
  for (const more of [0, 1]) {
    const { path, lines } = await written(5);
    let head = chainStart;
    const forged = Array.from({ length: lines.length + more }, (_, n) => {
      const line = chainLine(head, { ...recordOf(n + 7), ...(n === 0 && openedEvent) });
      head = line.head;
      return `${line.text}\n`;
    });
    await writeFile(path, forged.join(""));
    await expect(openAuditFile({ path })).rejects.toMatchObject({ code: "corrupt" });
    const findings = await problems(path);
    expect(findings.filter((each) => !each.startsWith("unchecked"))).toEqual(["altered at 6"]);
  }
});

test("lines whose head a crash kept from being noted are gone on with, in a new file, too, and said to be unchecked", async () => {
  for (const isRotated of [false, true]) {
    const { path } = await written(3);
    const head = await readFile(`${path}.head`);
    if (isRotated) await rename(path, `${path}.1`);
    await write(path, 3, 6);
    await writeFile(`${path}.head`, head);
    await write(path, 6, 8);
    expect(await problems(...(isRotated ? [`${path}.1`] : []), path)).toEqual([
      isRotated ? "unchecked at 5" : "unchecked at 8",
    ]);
  }
});

test("another process goes on with the chain", async () => {
  const path = newPath();
  await write(path, 0, 3);
  await write(path, 3, 6);
  expect(await verifyAuditFiles([path])).toMatchObject({ lines: 7, findings: [] });
});

test("half a line that a crash left is cut off, and a line says so", async () => {
  const { path, lines } = await written(3);
  await appendFile(path, lines[3]!.slice(0, 40));
  expect(await problems(path)).toEqual(["truncated at 5"]);
  await write(path, 3, 4);
  expect(await verifyAuditFiles([path])).toMatchObject({ lines: 6, findings: [] });
  expect(await readFile(path, "utf8")).toContain('"event":"recovered","droppedBytes":40');
  const torn = newPath();
  await writeFile(torn, lines[0]!.slice(0, 30));
  await write(torn, 0, 1);
  expect(await verifyAuditFiles([torn])).toMatchObject({ lines: 3, findings: [] });
});

test("a first line that a crash tore anywhere, or left as zeros, is begun anew", async () => {
  const { lines } = await written(0);
  const first = lines[0]!;
  for (const torn of [...Array.from(first, (_, at) => first.slice(0, at + 1)), "\0".repeat(99)]) {
    const path = newPath();
    await writeFile(path, torn.padEnd(torn.length + 3, "\0"));
    await write(path, 0, 1);
    expect(await verifyAuditFiles([path]), torn).toMatchObject({ lines: 3, findings: [] });
  }
});

describe("a crash between the lines and the note of them, and a rotation before the next start", () => {
  /** A trail of which the lines from 5 on were announced when their writer died. */
  async function crashed(announces: boolean): Promise<{ path: string; lines: string[] }> {
    const path = newPath();
    await write(path, 0, 3);
    const before = await readFile(`${path}.head`, "utf8");
    await write(path, 3, 5);
    const after = await readFile(`${path}.head`, "utf8");
    await writeFile(`${path}.head`, announces ? before + after : before);
    return { path, lines: (await readFile(path, "utf8")).trimEnd().split("\n") };
  }

  /** Continues in a new file, once this many lines of the old one reached the disk. */
  async function goOn(announces: boolean, linesLeft: number): Promise<string[]> {
    const { path, lines } = await crashed(announces);
    await writeFile(`${path}.1`, `${lines.slice(0, linesLeft).join("\n")}\n`);
    await rm(path);
    await write(path, 5, 7);
    return problems(`${path}.1`, path);
  }

  test("leave one chain, however many of the lines got to the disk", async () => {
    for (const linesLeft of [6, 5, 4]) expect(await goOn(true, linesLeft)).toEqual([]);
  });

  test("excuse no line that was kept before", async () => {
    expect(await goOn(true, 3)).toEqual(["removed at 1"]);
  });

  test("negative control: a writer that announces nothing forks the chain", async () => {
    expect(await goOn(false, 6)).not.toEqual([]);
  });
});

test("records cut off while nobody wrote stay missing", async () => {
  const { path, lines } = await written(6);
  await writeFile(path, `${lines.slice(0, -2).join("\n")}\n`);
  await write(path, 6, 8);
  expect(await problems(path)).toEqual(["removed at 6"]);
});

test("a file that is not a chain is left alone", async () => {
  for (const text of ["my diary\n", "one line without an end", '{"a":1}\n']) {
    const path = newPath();
    await writeFile(path, text);
    await expect(openAuditFile({ path })).rejects.toMatchObject({ code: "corrupt" });
    expect(await readFile(path, "utf8")).toBe(text);
  }
});

test("a file that is renamed, while it is written or between two runs, is continued by the next", async () => {
  const path = newPath();
  const { sink, close } = await openAuditFile({ path, sync: "never" });
  await sink(recordOf(0));
  await rename(path, `${path}.2`);
  await sink(recordOf(1));
  await close();
  await rename(path, `${path}.1`);
  await write(path, 2, 4);
  const verdict = await verifyAuditFiles([`${path}.2`, `${path}.1`, path]);
  expect(verdict).toMatchObject({ lines: 7, continues: { seq: 0 }, findings: [] });
  expect(await verifyAuditFiles([path])).toMatchObject({ continues: { seq: 4 }, findings: [] });
  expect(await problems(`${path}.2`, path)).toEqual(["removed at 1"]);
});

test("a file that is copied and emptied under the writer goes on, and the two copies are one chain", async () => {
  const path = newPath();
  const { sink, close } = await openAuditFile({ path, sync: "never" });
  await sink(recordOf(0));
  await writeFile(`${path}.1`, await readFile(path));
  await truncate(path);
  await sink(recordOf(1));
  await close();
  expect(await verifyAuditFiles([`${path}.1`, path])).toMatchObject({ lines: 4, findings: [] });
});

test("two writers of one file are refused, not mixed", async () => {
  const path = newPath();
  const one = await openAuditFile({ path, sync: "never" });
  await one.sink(recordOf(0));
  const other = await openAuditFile({ path, sync: "never" });
  await other.sink(recordOf(1));
  await expect(one.sink(recordOf(2))).rejects.toMatchObject({ code: "unavailable" });
  await Promise.all([one.close(), other.close()]);
  expect(await verifyAuditFiles([path])).toMatchObject({ lines: 3, findings: [] });
});
