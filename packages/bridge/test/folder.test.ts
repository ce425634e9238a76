import { createHash } from "node:crypto";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { openSpoolFolder } from "@sluice/bridge/internal";
import { expect, test } from "vitest";
import { answer, bytesOf, openBench, spool } from "./spooling.ts";

const long = "some text ".repeat(30);
const bytes = Buffer.from(Array.from({ length: 300 }, (_, at) => (at * 7) % 256));

/** The only file that a result leaves. */
async function fileOf(
  result: unknown,
): Promise<{ name: string; content: Buffer; coding: string; head: string }> {
  await using bench = await openBench();
  await spool(bench, [answer(result)]);
  const [file] = bench.spooled.values();
  expect(bench.names()).toHaveLength(1);
  const content = readFileSync(file!.place);
  expect(file!.bytes).toBe(content.length);
  expect(file!.sha256).toBe(createHash("sha256").update(content).digest("hex"));
  const [name] = bench.names();
  return { name: name!, content, coding: file!.coding, head: file!.head };
}

test("base64 of a blob or of data becomes its bytes", { tags: "slow" }, async () => {
  for (const member of ["blob", "data"])
    for (const escape of [false, true])
      for (let length = 297; length < 300; length += 1) {
        await using bench = await openBench();
        const base64 = Buffer.concat([bytes.subarray(0, length), Buffer.alloc(9, 255)]).toString(
          "base64",
        );
        const text = answer({ contents: [{ uri: "a:b", [member]: base64 }] });
        await spool(bench, bytesOf(escape ? text.replaceAll("/", "\\/") : text));
        const [file] = bench.spooled.values();
        expect(readFileSync(file!.place).toString("base64")).toBe(base64);
        expect(file!.coding).toBe("base64");
      }
});

test.each([
  ["another character in the middle", `${bytes.toString("base64")}*${"A".repeat(300)}`],
  ["another character at the end", `${bytes.subarray(0, 299).toString("base64").slice(0, -1)}?`],
  ["padding in the middle", `${"A".repeat(200)}==${"A".repeat(200)}`],
  ["unused bits that are not 0", `${"A".repeat(200)}AB==`],
  ["one padding too many", `${"A".repeat(200)}A===`],
  ["padding before white space and more", `${"A".repeat(200)}==\n${"A".repeat(200)}`],
  ["a URL of another coding", `data:image/png,${"A".repeat(400)}`],
  ["no ASCII", `${"A".repeat(400)}é`],
])("a blob that is not base64 becomes its text: %s", async (_what, text) => {
  for (const chunks of [[answer({ blob: text })], bytesOf(answer({ blob: text }))]) {
    await using bench = await openBench();
    await spool(bench, chunks);
    const [file] = bench.spooled.values();
    expect(readFileSync(file!.place, "utf8")).toBe(text);
    expect(file!.coding).toBe("text");
    expect(file!.sha256).toBe(createHash("sha256").update(text).digest("hex"));
    expect(bench.names()).toHaveLength(1);
  }
});

const base64 = bytes.subarray(0, 298).toString("base64");
const inLines = (length: number, end: string) =>
  base64.replaceAll(new RegExp(`.{${length}}`, "g"), `$&${end}`);

/** The same bytes as programs write them. */
const spellings: Readonly<Record<string, string>> = {
  "in lines, as Python's encodebytes": `${inLines(76, "\n")}\n`,
  "in lines, as Ruby's encode64": `${inLines(60, "\n")}\n`,
  "in lines of MIME": inLines(76, "\r\n"),
  "without padding": base64.replace(/=+$/, ""),
  "with the digits of URLs": base64.replaceAll("+", "-").replaceAll("/", "_"),
  "of URLs, without padding": bytes.subarray(0, 298).toString("base64url"),
  "in a data: URL": `data:image/png;base64,${base64}`,
  "in a data: URL with a parameter, in lines": `data:text/plain;charset=utf-8;base64,\n${inLines(64, "\n")}`,
};

test.each(Object.entries(spellings))("a blob of base64 %s becomes its bytes", async (_, text) => {
  for (const place of [{ blob: text }, { type: "image", data: text }])
    for (const chunks of [[answer(place)], bytesOf(answer(place))]) {
      await using bench = await openBench();
      await spool(bench, chunks);
      const [file] = bench.spooled.values();
      expect(file!.coding).toBe("base64");
      expect(readFileSync(file!.place).equals(bytes.subarray(0, 298))).toBe(true);
      expect(bench.names()).toHaveLength(1);
    }
  // what a server made for a schema of its own stays as it is
  const structured = await fileOf({ content: [], structuredContent: { a: [{ data: text }] } });
  expect(structured).toMatchObject({ coding: "text" });
  expect(structured.content.toString()).toBe(text);
});

test("a text that stands twice in a result is one file", async () => {
  await using bench = await openBench();
  const result = {
    content: [
      { type: "text", text: long },
      { type: "text", text: `${long}!` },
    ],
    structuredContent: { result: long },
  };
  await spool(bench, [answer(result)]);
  expect(bench.names()).toHaveLength(2);
  const places = [...bench.spooled.values()].map(({ place }) => place);
  expect(places[0]).toBe(places[2]);
  expect(places[1]).not.toBe(places[0]);
  expect(readFileSync(places[0]!, "utf8")).toBe(long);
});

test("a text in the place of bytes has the name of a text", async () => {
  const blob = `${"A".repeat(400)}é`;
  const { name } = await fileOf({
    contents: [{ uri: "a:/photo.png", mimeType: "image/png", blob }],
  });
  expect(name).toMatch(/^photo\.png-[0-9a-f]{8}\.txt$/);
});

test("a text keeps a byte order mark, and what is no UTF-8 becomes U+FFFD", async () => {
  await using bench = await openBench();
  const [before, after] = answer({ text: `\u{feff}${long}#` }).split("#") as [string, string];
  await spool(bench, [before, Uint8Array.of(0xe2), Uint8Array.of(0x82), after]);
  const [file] = bench.spooled.values();
  expect(readFileSync(file!.place, "utf8")).toBe(`\u{feff}${long}\u{fffd}`);
});

test("base64 in another member is a text", async () => {
  const { coding, content } = await fileOf({ text: bytes.toString("base64") });
  expect(coding).toBe("text");
  expect(content.toString()).toBe(bytes.toString("base64"));
});

test.each([
  ["files:///a/report%202.pdf", undefined, /^report 2-[0-9a-f]{8}\.pdf$/],
  ["files:///a/report", "text/csv; charset=utf-8", /^report-[0-9a-f]{8}\.csv$/],
  ["files:///a/..%2F..%2Fetc%2Fpasswd", undefined, /^passwd-[0-9a-f]{8}\.bin$/],
  ["files:///.bashrc", undefined, /^bashrc-[0-9a-f]{8}\.bin$/],
  ["files:///a%00b%0a%E2%80%AEgpj.exe", undefined, /^abgpj-[0-9a-f]{8}\.exe$/],
  [`files:///${"n".repeat(80)}`, "image/png", /^n{48}-[0-9a-f]{8}\.png$/],
  ["files:///", "no type", /^data-[0-9a-f]{8}\.bin$/],
  ["files:///..", undefined, /^(?:data|download)-[0-9a-f]{8}\.bin$/],
])("the name for %s is safe", async (uri, mimeType, pattern) => {
  const { name } = await fileOf({ contents: [{ uri, mimeType, blob: bytes.toString("base64") }] });
  expect(name).toMatch(pattern);
});

test("the head of bytes is their text, or hexadecimal", async () => {
  const text = await fileOf({ blob: Buffer.from(long.repeat(10)).toString("base64") });
  expect(text.head).toBe(long.repeat(10).slice(0, 1_024));
  const binary = await fileOf({ blob: bytes.toString("base64") });
  expect(binary.head).toMatch(/^00 07 0e 15( [0-9a-f]{2}){28}$/);
  const cut = await fileOf({ text: `${"a".repeat(1_023)}é${long}` });
  expect(cut.head).toBe("a".repeat(1_023));
});

test("files are for this user only", async () => {
  await using bench = await openBench();
  await spool(bench, [answer({ text: long })]);
  const [file] = bench.spooled.values();
  expect(statSync(file!.place).mode & 0o777).toBe(0o600);
  expect(statSync(bench.folder.path).mode & 0o777).toBe(0o700);
});

test("the list has whole files of any run, and no others", async () => {
  await using bench = await openBench();
  await spool(bench, [answer({ text: long })]);
  writeFileSync(join(bench.folder.path, "mine.txt"), "mine");
  symlinkSync("/etc/passwd", join(bench.folder.path, "link-00000000.txt"));
  mkdirSync(join(bench.folder.path, "folder-00000000.txt"));
  const again = await openSpoolFolder({ folder: bench.root, maxBytes: 1_000, maxAgeMs: 1_000 });
  const [file] = bench.spooled.values();
  expect(await again.list()).toMatchObject([{ path: file!.place, bytes: long.length }]);
});

test("old files and parts without a writer are removed, and nothing else", async () => {
  await using bench = await openBench();
  const { folder } = bench;
  await spool(bench, [answer({ text: long })]);
  const past = Date.now() / 1_000 - 10_000;
  const names = ["old-01234567.txt", `.${"0".repeat(32)}.part`, "mine.txt", ".part", "x-0123.txt"];
  for (const name of names) {
    writeFileSync(join(folder.path, name), "old");
    utimesSync(join(folder.path, name), past, past);
  }
  writeFileSync(join(folder.path, `.${"1".repeat(32)}.part`), "being written");
  await folder.clean();
  const [file] = bench.spooled.values();
  const kept = [".part", "mine.txt", "x-0123.txt", `.${"1".repeat(32)}.part`];
  expect(bench.names().toSorted()).toEqual(
    [...kept, file!.place.slice(folder.path.length + 1)].toSorted(),
  );
});

test("the limit of bytes counts files of earlier runs, and has room again when they are deleted", async () => {
  await using bench = await openBench(500);
  await spool(bench, [answer({ text: long })]);
  const again = await openSpoolFolder({ folder: bench.root, maxBytes: 500, maxAgeMs: 3_600_000 });
  const later = { ...bench, folder: again };
  expect(await spool(later, [answer({ text: long })])).toContain("may have 500 bytes together");
  expect(bench.names()).toHaveLength(1);
  for (const { path } of await again.list()) unlinkSync(path);
  await again.clean();
  expect(await spool(later, [answer({ text: long })])).not.toContain("error");
});

test("files of a killed process count until they are removed", async () => {
  await using bench = await openBench(500);
  const left = join(bench.folder.path, `.${"2".repeat(32)}.part`);
  writeFileSync(left, long);
  await bench.folder.clean();
  expect(await spool(bench, [answer({ text: long })])).toContain("may have 500 bytes together");
  utimesSync(left, 0, 0);
  await bench.folder.clean();
  expect(await spool(bench, [answer({ text: long })])).not.toContain("error");
});

test("bytes that failed count no more", async () => {
  await using bench = await openBench(1_000);
  for (let count = 0; count < 10; count += 1)
    await spool(bench, [answer({ text: long }).slice(0, -1)]);
  expect(await spool(bench, [answer({ text: long })])).not.toContain("error");
});

test("a link in the place of the folder is refused", async () => {
  await using bench = await openBench();
  const elsewhere = join(bench.root, "elsewhere");
  const named = join(bench.root, "named");
  mkdirSync(elsewhere);
  mkdirSync(named);
  symlinkSync(elsewhere, join(named, "spooled"));
  const opening = openSpoolFolder({ folder: named, maxBytes: 1, maxAgeMs: 1 });
  await expect(opening).rejects.toMatchObject({ code: "untrusted" });
});

test("a folder that is replaced while it is used gets no file", async () => {
  await using bench = await openBench();
  const elsewhere = join(bench.root, "elsewhere");
  await rename(bench.folder.path, elsewhere);
  symlinkSync(elsewhere, bench.folder.path);
  expect(await spool(bench, [answer({ text: long })])).toContain("was replaced or deleted");
  expect(readdirSync(elsewhere)).toEqual([]);
});

test("a folder that is not there, or is a file, is an error that says so", async () => {
  await using bench = await openBench();
  const file = join(bench.root, "file");
  writeFileSync(file, "");
  const limits = { maxBytes: 1, maxAgeMs: 1 };
  const absent = openSpoolFolder({ folder: join(bench.root, "absent"), ...limits });
  await expect(absent).rejects.toMatchObject({ code: "not_found" });
  await expect(openSpoolFolder({ folder: file, ...limits })).rejects.toMatchObject({
    code: "invalid_argument",
  });
});

test("a closed folder has no parts and takes none", async () => {
  await using bench = await openBench();
  const part = await bench.folder.create();
  await part.write(Buffer.from("a"));
  expect(bench.names()).toHaveLength(1);
  await bench.folder.close();
  expect(bench.names()).toEqual([]);
  expect(await spool(bench, [answer({ text: long })])).toContain("is closed");
});
