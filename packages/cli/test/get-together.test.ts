// The small files of a folder come in one response from a server that declares it.
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import type { Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const small = Object.fromEntries(
  Array.from({ length: 30 }, (_, at) => [`${at}.txt`, `text ${at}`]),
);
const names = Object.keys(small);
const large = Buffer.alloc(5 * 2 ** 20, "large");

let root = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-together-"));
  await mkdir(join(root, "files"));
  for (const [name, text] of Object.entries(small))
    await writeFile(join(root, "files", name), text);
  await writeFile(join(root, "files", "large.bin"), large);
  served = await serveHere(join(root, "files"), ["--audit", join(root, "audit")], {
    env: { XDG_STATE_HOME: root },
  });
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** Actions in the audit trail, with how often. */
async function recorded(): Promise<Record<string, number>> {
  const lines = (await readFile(join(root, "audit"), "utf8")).split("\n").filter(Boolean);
  const counts: Record<string, number> = {};
  for (const line of lines) {
    const { action, outcome } = JSON.parse(line) as { action: string; outcome: string };
    if (outcome === "complete") counts[action] = (counts[action] ?? 0) + 1;
  }
  return counts;
}

test("a folder comes with one call for its small files, each recorded, and one for the large one", async () => {
  const out = join(root, "out");
  const run = await runHere(["get", served.url, "files://local/", "-o", out, "--json"]);
  expect([run.status, run.stderr]).toEqual([0, ""]);
  const lines = run.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(31);
  for (const { uri, path, sha256 } of lines) {
    expect(path).toBe(join(out, (uri as string).slice("files://local/".length)));
    const content = await readFile(path as string);
    expect(createHash("sha256").update(content).digest("hex")).toBe(sha256);
  }
  expect((await readdir(out)).length).toBe(31);
  await expect.poll(recorded).toMatchObject({ tree: 1, stream: 30, download: 1 });
});

test("a file of another digest than the listed one is refused, and the rest is saved", async () => {
  const sums = names.map((name) => {
    const text = name === "7.txt" ? "another" : small[name]!;
    return `${createHash("sha256").update(text).digest("hex")}  ${name}\n`;
  });
  await writeFile(join(root, "sums"), sums.join(""));
  const out = join(root, "checked");
  const args = ["-o", out, "--checksum", join(root, "sums"), "--include", "*.txt"];
  const { status, stderr } = await runHere(["get", served.url, "files://local/", ...args]);
  expect(status).toBe(exitCodes.integrity.status);
  expect(stderr).toContain("29 saved, 1 refused");
  expect((await readdir(out)).filter((name) => !name.startsWith("."))).toHaveLength(29);
});

test("files that are there come by themselves: they stay unless forced, and are then replaced", async () => {
  const out = join(root, "mine");
  await mkdir(out);
  await writeFile(join(out, "3.txt"), "mine");
  const before = await recorded();
  const args = ["get", served.url, "files://local/", "-o", out, "--include", "*.txt"];
  const first = await runHere(args);
  expect(first.stderr).toContain("29 saved, 1 refused");
  expect(await readFile(join(out, "3.txt"), "utf8")).toBe("mine");
  const again = await runHere([...args, "--force"]);
  expect(again.status).toBe(0);
  expect(await readFile(join(out, "3.txt"), "utf8")).toBe(small["3.txt"]);
  await expect.poll(async () => (await recorded())["tree"]).toBe(before["tree"]! + 1);
});
