import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sweepOrphans } from "../src/save/resume-record.ts";
import { randomPartName, saveBytes, saveFile, writerOfPart } from "@sluice/client/internal";
import { expect, onTestFinished, test } from "vitest";

function folder(below = tmpdir()): string {
  const path = mkdtempSync(join(below, "sluice-own-file-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

/** The name of a part as a process gave it that is over. */
function deadName(): string {
  const pid = execFileSync(process.execPath, ["-e", "process.stdout.write(String(process.pid))"]);
  const own = randomPartName();
  return own.slice(0, 5) + Number(pid.toString()).toString(16).padStart(8, "0") + own.slice(13);
}

test("a part of a process that is over goes with the next save, those of running ones and of other machines stay", async () => {
  const directory = folder();
  const [own, dead] = [randomPartName(), deadName()];
  const elsewhere = `.${dead[1] === "0" ? "1" : "0"}${dead.slice(2)}`;
  for (const name of [own, dead, elsewhere, dead.replace("part", "kept")])
    writeFileSync(join(directory, name), "half");
  expect([own, dead, elsewhere].map(writerOfPart)).toEqual(["running", "ended", "elsewhere"]);
  await saveBytes(Buffer.from("a"), join(directory, "a.txt"), { name: "a.txt" });
  expect(new Set(readdirSync(directory))).toEqual(
    new Set([own, elsewhere, dead.replace("part", "kept"), "a.txt"]),
  );
});

test("a file gets a second name, whole and with the permissions of new files, and stays", async () => {
  const directory = folder();
  const from = join(directory, "from");
  writeFileSync(from, "bytes", { mode: 0o600 });
  const path = await saveFile(from, `${directory}/`, { name: "../a.txt" });
  expect(path).toBe(join(directory, "a.txt"));
  expect(readFileSync(path, "utf8")).toBe("bytes");
  expect(statSync(path).mode & 0o777).toBe(0o666 & ~process.umask());
  expect(readdirSync(directory).toSorted()).toEqual(["a.txt", "from"]);
});

test("a file that is there is not replaced, and nothing is left", async () => {
  const directory = folder();
  const from = join(directory, "from");
  writeFileSync(from, "bytes");
  writeFileSync(join(directory, "a.txt"), "mine");
  const saving = saveFile(from, join(directory, "a.txt"), { name: "a.txt" });
  await expect(saving).rejects.toMatchObject({ code: "already_exists" });
  expect(readFileSync(join(directory, "a.txt"), "utf8")).toBe("mine");
  expect(readdirSync(directory).toSorted()).toEqual(["a.txt", "from"]);
});

test("a file of another file system is copied", async (context) => {
  const other = existsSync("/dev/shm") && statSync("/dev/shm").dev !== statSync(tmpdir()).dev;
  if (!other) {
    console.info("there is one file system only: nothing is copied");
    context.skip();
  }
  const from = join(folder("/dev/shm"), "from");
  writeFileSync(from, "bytes");
  const directory = folder();
  const path = await saveFile(from, join(directory, "a.txt"), { name: "a.txt" });
  expect(readFileSync(path, "utf8")).toBe("bytes");
  expect(readdirSync(directory)).toEqual(["a.txt"]);
});

test("a folder is looked through for parts once a minute, another one at once", async () => {
  const [directory, other] = [folder(), folder()];
  const dead = deadName();
  const plant = (where: string): void => writeFileSync(join(where, dead), "half");
  const now = Date.now();
  const look = async (where: string, atMs: number): Promise<boolean> => {
    plant(where);
    await sweepOrphans(where, atMs);
    return !existsSync(join(where, dead));
  };
  expect(await look(directory, now + 1_000)).toBe(true);
  expect(await look(directory, now + 60_000)).toBe(false);
  expect(await look(other, now + 60_000)).toBe(true);
  expect(await look(directory, now + 61_001)).toBe(true);
  // a clock that was set back
  expect(await look(directory, now + 500)).toBe(true);
});
