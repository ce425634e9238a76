import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { whileLocked } from "../src/upstream/oauth/token-file.ts";
import { makeFolders } from "./filing.ts";

const { signal } = new AbortController();
const { pid: deadPid } = spawnSync(process.execPath, ["--version"]);

test(
  "bridges that find the lock of a dead process sign in one after the other",
  { tags: "slow" },
  async () => {
    const path = join(makeFolders().save, "a.json");
    let running = 0;
    let most = 0;
    writeFileSync(`${path}.lock`, String(deadPid));
    const work = async (): Promise<void> => {
      most = Math.max(most, ++running);
      await sleep(2);
      running -= 1;
    };
    await Promise.all(Array.from({ length: 4 }, () => whileLocked(path, 60_000, signal, work)));
    expect(most).toBe(1);
    expect(readdirSync(dirname(path))).toEqual([]);
  },
);

test("no bridge removes a lock while another one does, which may have made the next already", async () => {
  const path = join(makeFolders().save, "a.json");
  writeFileSync(`${path}.lock`, String(deadPid));
  writeFileSync(`${path}.lock.removing`, "");
  const ending = AbortSignal.timeout(500);
  const taken = whileLocked(path, 60_000, ending, async () => "taken");
  await expect(taken).rejects.toThrow("timeout");
  expect(existsSync(`${path}.lock`)).toBe(true);
});

test("a lock without a process, and what a bridge left that removed one, do not last", async () => {
  const path = join(makeFolders().save, "a.json");
  for (const name of [`${path}.lock`, `${path}.lock.removing`]) {
    writeFileSync(name, "");
    utimesSync(name, new Date(0), Date.now() / 1_000 - 10);
  }
  expect(await whileLocked(path, 60_000, signal, async () => "done")).toBe("done");
  expect(readdirSync(dirname(path))).toEqual([]);
});

test("a bridge whose lock was taken over leaves that of the other", async () => {
  const path = join(makeFolders().save, "a.json");
  await whileLocked(path, 60_000, signal, async () => {
    unlinkSync(`${path}.lock`);
    writeFileSync(`${path}.lock`, String(process.pid));
  });
  expect(existsSync(`${path}.lock`)).toBe(true);
});
