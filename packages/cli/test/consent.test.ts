// @module-tag slow
import { spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createConsent } from "../src/download/consent.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { program, runCommand, type Run, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const { signal } = new AbortController();
const uri = "files://local/huge.bin";
const terminal = "script";
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("the end of input on a terminal runs with SLUICE_DEEP");
const isThere = spawnSync(terminal, ["--version"], { encoding: "utf8" }).stdout?.includes(
  "util-linux",
);
if (!isThere)
  console.log("questions on a terminal skipped: there is no util-linux `script` to make one");

let root = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  await mkdir(join(root, "files"));
  // zeros that take no room on disk
  await writeFile(join(root, "files", "huge.bin"), "");
  await truncate(join(root, "files", "huge.bin"), 1.5 * 2 ** 30);
  await writeFile(join(root, "files", "small.bin"), "small");
  await writeFile(join(root, "files", "other.bin"), "other");
  served = await serveHere(join(root, "files"));
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

const target = (): Promise<string> => mkdtemp(join(root, "target-"));

/** Runs `get` on a terminal and does something when it asks. */
async function askedOn(folder: string, reply: (child: ChildProcess) => void): Promise<Run> {
  const words = [...program, "get", served.url, uri, "-o", `${folder}/`];
  const line = words.map((word) => `'${word}'`).join(" ");
  return runCommand([terminal, "-qec", `stty cols 80; ${line}`, "/dev/null"], {
    env: { TERM: "xterm" },
    onStart(child) {
      let seen = "";
      const read = (chunk: Buffer): void => {
        seen += chunk.toString();
        if (!seen.includes("[y/N]")) return;
        child.stdout!.off("data", read);
        reply(child);
      };
      child.stdout!.on("data", read);
    },
  });
}

test("without a terminal a large download is refused at once, and --max-size answers in advance", async () => {
  const cwd = await target();
  const refused = await runHere(["get", served.url, uri], { cwd });
  expect(refused.status).toBe(exitCodes.refused.status);
  const { host } = new URL(served.url);
  expect(refused.stderr).toBe(
    `sluice: no terminal to ask whether to fetch 1 file, 1.5 GiB, to huge.bin, from ${host}; pass --yes, or a sufficient --max-size\n`,
  );
  const limited = await runHere(["get", served.url, uri, "--max-size", "1G"], { cwd });
  expect(limited.stderr).toContain("raise --max-size");
  expect(readdirSync(cwd)).toEqual([]);
});

test("several resources are asked for once, with what they are together", async () => {
  const cwd = await target();
  const uris = [uri, "files://local/small.bin"];
  const refused = await runHere(["get", served.url, ...uris, "-o", "./"], { cwd });
  expect(refused.status).toBe(exitCodes.refused.status);
  expect(refused.stderr).toContain("2 files, 1.5 GiB, to ./, from ");
  expect(readdirSync(cwd)).toEqual([]);
});

test("several resources go into a folder, each with a line of its own", async () => {
  const cwd = await target();
  const uris = ["files://local/small.bin", "files://local/other.bin"];
  const { status, stdout } = await runHere(["get", served.url, ...uris], { cwd });
  expect([status, stdout]).toEqual([0, "small.bin\nother.bin\n"]);
  expect(readdirSync(cwd).toSorted()).toEqual(["other.bin", "small.bin"]);
  const file = await runHere(["get", served.url, ...uris, "-o", "one-file"], { cwd });
  expect(file.status).toBe(exitCodes.usage.status);
});

test
  .skipIf(!isThere)
  .each([
    ["no", (child: ChildProcess) => child.stdin!.write("n\n")],
    ...(isDeep
      ? [["the end of input", (child: ChildProcess) => child.stdin!.write("\u0004")] as const]
      : []),
  ] as const)("consent is requested on a terminal, and %s declines", async (_, reply) => {
  const folder = await target();
  const { status, stdout } = await askedOn(folder, reply);
  expect(stdout).toContain("Download 1 file, 1.5 GiB, to ");
  expect(stdout).toContain("declined; nothing was downloaded");
  expect(status).toBe(exitCodes.refused.status);
  expect(readdirSync(folder)).toEqual([]);
});

test.skipIf(!isThere)("Ctrl-C at the question ends the command as ever", async () => {
  const folder = await target();
  const { status } = await askedOn(folder, (child) => child.stdin!.write("\u0003"));
  expect(status).toBe(exitCodes.interrupted.status);
  expect(readdirSync(folder)).toEqual([]);
});

test.skipIf(!isThere)("yes begins the download", async () => {
  const folder = await target();
  const { stdout } = await askedOn(folder, (child) => {
    child.stdin!.write("y\n");
    // a bar is drawn once bytes come; the rest of them is of no interest
    child.stdout!.on("data", (chunk: Buffer) => {
      if (/[█░]/.test(chunk.toString())) child.stdin!.write("\u0003");
    });
  });
  expect(stdout).toMatch(/[█░]+.* of 1\.50? GiB/);
  expect(existsSync(join(folder, "huge.bin"))).toBe(false);
});

test("a small download needs no consent, one of unknown size does, and --yes gives it", async () => {
  const scale = { files: 1, bytes: 2 ** 30, unknownSizes: 0, from: ["example.com"] };
  const consent = createConsent({ signal })!;
  expect(await consent(scale)).toBe(true);
  // tests have no terminal
  const unknown = { ...scale, bytes: 0, unknownSizes: 1 };
  await expect(consent(unknown)).rejects.toMatchObject({
    cause: { message: expect.stringContaining("size unknown") },
  });
  expect(createConsent({ signal, yes: true })).toBeUndefined();
  expect(createConsent({ signal, maxSize: 1 })).toBeUndefined();
});
