import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { streamResource, withStreaming } from "@sluice/client/node";
import { startFileServer } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";

const content = Buffer.alloc(3_000_000, "The quick brown fox ");
const kills = process.env["SLUICE_DEEP"] ? 1_000 : 12;

async function startSaving(
  script: string,
  url: string,
  directory: string,
  connections: number,
  times = Number.POSITIVE_INFINITY,
): Promise<ChildProcess> {
  const child = spawn(process.execPath, [script, url, directory, `${connections}`, `${times}`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await told(child, "ready");
  return child;
}

/** The exit code of a process, also when it is over already. */
async function exitOf(child: ChildProcess): Promise<number | null> {
  child.stdout?.resume();
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}

/** Waits until the process has printed a word. */
async function told(child: ChildProcess, word: string): Promise<void> {
  let output = "";
  while (!output.includes(word)) {
    const [chunk] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    output += chunk.toString();
  }
}

test(
  "a process killed at any moment leaves whole files under their names, or none",
  { timeout: 600_000 },
  async () => {
    const root = await mkdtemp(join(tmpdir(), "sluice-"));
    await using server = await startFileServer({ content });
    const script = inject("programs")["packages/client/test/saving-process.ts"]!;
    let wholes = 0;
    const kill = async (index: number): Promise<void> => {
      const directory = await mkdtemp(join(root, "run-"));
      const child = await startSaving(script, server.url, directory, 1 + (index % 3));
      const ended = once(child, "exit");
      // one in eight comes to the end of its first file, however slow the machine is
      if (index % 8 === 7) await told(child, "saved");
      await new Promise((resolve) => setTimeout(resolve, (index * 7) % 160));
      child.kill("SIGKILL");
      await ended;
      const names = await readdir(directory);
      const finals = names.filter((name) => !name.startsWith("."));
      for (const name of finals)
        expect((await readFile(join(directory, name))).equals(content), name).toBe(true);
      wholes += finals.length;
      // and the next run is not disturbed by what is left
      if (index % 8 !== 0) return;
      const stream = await streamResource(
        createRawClient(server.url, withStreaming()),
        "x://a/b.bin",
      );
      const saved = await stream.saveTo(directory, { resume: true });
      expect((await readFile(saved.path)).equals(content)).toBe(true);
    };
    for (let index = 0; index < kills; index += 3)
      await Promise.all([kill(index), kill(index + 1), kill(index + 2)]);
    // kills that all come before the first file is done would prove nothing
    expect(wholes).toBeGreaterThan(0);
    await rm(root, { recursive: true });
  },
);

test("processes that save the same resource to the same folder never publish each other's bytes", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-"));
  await using server = await startFileServer({ content });
  const script = inject("programs")["packages/client/test/saving-process.ts"]!;
  const savers = await Promise.all(
    [1, 2, 3].map(() => startSaving(script, server.url, root, 1, 3)),
  );
  const ends = await Promise.all(savers.map(exitOf));
  expect(ends).toEqual([0, 0, 0]);
  const finals = (await readdir(root)).filter((name) => !name.startsWith("."));
  expect(finals.length).toBe(9);
  for (const name of finals)
    expect((await readFile(join(root, name))).equals(content), name).toBe(true);
  await rm(root, { recursive: true });
});

test("bytes are hashed beside the transfer also in a process whose own script is given as text", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-"));
  await using server = await startFileServer({ content: Buffer.alloc(20_000_000, "fox") });
  const script = inject("programs")["packages/client/test/saving-process.ts"]!;
  const run = ["--input-type=module", "-e", "await import(process.argv[1])", script];
  const child = spawn(process.execPath, [...run, server.url, root, "1"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  await Promise.race([told(child, "saved"), ended.then(() => expect.unreachable("it failed"))]);
  child.kill("SIGKILL");
  await ended;
  await rm(root, { recursive: true });
});
