import { lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditRecord } from "@sluice/server";
import { openAuditFile, verifyAuditFiles } from "@sluice/server/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-head-"));
});
afterAll(() => rm(root, { recursive: true }));

let count = 0;
const newPath = (): string => join(root, `${(count += 1)}.log`);

const recordOf = (n: number): AuditRecord => ({
  id: `op-${n}`,
  time: 1_700_000_000_000 + n,
  action: "download",
  outcome: "complete",
  bytes: n,
  durationMs: 1,
});

async function write(path: string, from: number, to: number): Promise<void> {
  const { sink, close } = await openAuditFile({ path, sync: "never" });
  for (let n = from; n < to; n++) await sink(recordOf(n));
  await close();
}

async function cutOff(path: string, lines: number): Promise<void> {
  const text = await readFile(path, "utf8");
  await writeFile(path, `${text.trimEnd().split("\n").slice(0, -lines).join("\n")}\n`);
}

const problems = async (path: string, options = {}): Promise<string[]> =>
  (await verifyAuditFiles([path], options)).findings.map(
    ({ problem, line }) => `${problem} at ${line}`,
  );

/** What makes the note beside a file useless, and how the finding says it. */
const ways: readonly (readonly [string, (path: string) => Promise<void>, RegExp])[] = [
  ["removed", (path) => rm(`${path}.head`), /\.head is not there$/],
  ["emptied", (path) => writeFile(`${path}.head`, ""), /\.head is empty$/],
  ["overwritten", (path) => writeFile(`${path}.head`, "12:ab\n"), /\.head holds no head$/],
  [
    "replaced by a link to a head that fits",
    async (path) => {
      const head = await readFile(`${path}.head`);
      await writeFile(`${path}.other`, head);
      await rm(`${path}.head`);
      await symlink(`${path}.other`, `${path}.head`);
    },
    /\.head is not a regular file/,
  ],
];

describe.each(ways)("a head that is %s", (_, spoil, message) => {
  test("leaves the end of a whole file unchecked, unless a head that was noted elsewhere names it", async () => {
    const path = newPath();
    await write(path, 0, 5);
    const { head, findings } = await verifyAuditFiles([path]);
    expect(findings).toEqual([]);
    await spoil(path);
    const verdict = await verifyAuditFiles([path]);
    expect(verdict.findings).toMatchObject([{ problem: "unchecked", line: 6 }]);
    expect(verdict.findings[0]!.message).toMatch(message);
    expect(await problems(path, { expect: head })).toEqual([]);
  });

  test("hides no lines that were cut off: from none, from half or from all of the file", async () => {
    for (const lines of [1, 3, 6]) {
      const path = newPath();
      await write(path, 0, 5);
      await spoil(path);
      await cutOff(path, lines);
      expect(await problems(path)).not.toEqual([]);
    }
  });
});

test("a head of an older time leaves the end unchecked", async () => {
  const path = newPath();
  await write(path, 0, 2);
  const older = await readFile(`${path}.head`);
  await write(path, 2, 6);
  await writeFile(`${path}.head`, older);
  await cutOff(path, 2);
  const { findings } = await verifyAuditFiles([path]);
  expect(findings).toMatchObject([
    { problem: "unchecked", line: 5, message: expect.stringContaining("names record 3") },
  ]);
});

test("a server that starts without a head, or with an older one, says so in the chain, where it stays", async () => {
  for (const isOlder of [false, true]) {
    const path = newPath();
    await write(path, 0, 2);
    const older = await readFile(`${path}.head`);
    await write(path, 2, 6);
    const { head } = await verifyAuditFiles([path]);
    await (isOlder ? writeFile(`${path}.head`, older) : rm(`${path}.head`));
    await cutOff(path, 2);
    await write(path, 6, 9);
    expect(await problems(path)).toEqual(["unchecked at 6"]);
    expect((await problems(path, { expect: head })).length).toBeGreaterThan(0);
    const { head: now } = await verifyAuditFiles([path]);
    expect(await problems(path, { expect: now })).toEqual([]);
  }
});

test("the end of a file that is being written is checked", { tags: "slow" }, async () => {
  const path = newPath();
  const { sink, close } = await openAuditFile({ path, sync: "never" });
  await sink(recordOf(0));
  const writing = (async () => {
    for (let n = 1; n < 300; n++) await sink(recordOf(n));
  })();
  for (let looks = 0; looks < 10; looks++)
    expect((await problems(path)).filter((each) => !each.startsWith("truncated"))).toEqual([]);
  await writing;
  await close();
  expect(await problems(path)).toEqual([]);
});

describe("a link that another user left", () => {
  /** A file that must stay as it is, and a link to it. */
  async function trap(link: string): Promise<() => Promise<string>> {
    const target = `${link}.victim`;
    await writeFile(target, "dear diary\n");
    await rm(link, { force: true });
    await symlink(target, link);
    return () => readFile(target, "utf8");
  }

  test("is replaced and leads nowhere if the next head is written there", async () => {
    const path = newPath();
    const victim = await trap(`${path}.head.new`);
    await write(path, 0, 2);
    expect(await victim()).toBe("dear diary\n");
    expect(await problems(path)).toEqual([]);
    expect((await lstat(`${path}.head`)).isFile()).toBe(true);
  });

  test.each([".head", ".reserve", ""])(
    "ends the start if it has the name of the file and %j",
    async (end) => {
      const path = newPath();
      const victim = await trap(`${path}${end}`);
      await expect(openAuditFile({ path })).rejects.toMatchObject({
        code: "corrupt",
        message: expect.stringContaining("not a regular file"),
      });
      expect(await victim()).toBe("dear diary\n");
    },
  );

  test("a folder at one of the names ends the start, too", async () => {
    const path = newPath();
    await mkdir(`${path}.reserve`);
    await expect(openAuditFile({ path })).rejects.toMatchObject({ code: "corrupt" });
  });
});
