// @module-tag slow
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { streamResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { startFileServer } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";

const content = Buffer.alloc(3_000_000, "The quick brown fox ");
const kills = process.env["SLUICE_DEEP"] ? 1_002 : 4;

async function startSaving(
  script: string,
  url: string,
  directory: string,
  connections: number,
  ...times: readonly (string | number)[]
): Promise<ChildProcess> {
  const args = [script, url, directory, connections, ...times].map(String);
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
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

test("a process killed at any moment leaves whole files under their names, or none", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-"));
  await using server = await startFileServer({ content, pace: 2 ** 16 });
  const script = inject("programs")["packages/client/test/saving-process.ts"]!;
  let wholes = 0;
  const kill = async (index: number): Promise<void> => {
    const directory = await mkdtemp(join(root, "run-"));
    const child = await startSaving(script, server.url, directory, 1 + (index % 3));
    const ended = once(child, "exit");
    // one in four comes to the end of its first file, however slow the machine is
    if (index % 4 === 3) await told(child, "saved");
    await new Promise((resolve) => setTimeout(resolve, (index * 47) % 160));
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
  for (let index = 0; index < kills; index += 2) await Promise.all([kill(index), kill(index + 1)]);
  // kills that all come before the first file is done would prove nothing
  expect(wholes).toBeGreaterThan(0);
  await rm(root, { recursive: true });
});

test("processes that save the same resource to the same folder, and break off, never disturb each other", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-"));
  await using server = await startFileServer({ content, pace: 2 ** 16 });
  const script = inject("programs")["packages/client/test/saving-process.ts"]!;
  // a file has a hundred names in a folder
  const [processes, saves] = process.env["SLUICE_DEEP"] ? [8, 12] : [2, 2];
  const savers = await Promise.all(
    Array.from({ length: processes }, () =>
      startSaving(script, server.url, root, 1, saves, "break-off"),
    ),
  );
  const ends = await Promise.all(savers.map(exitOf));
  expect(ends).toEqual(savers.map(() => 0));
  const finals = (await readdir(root)).filter((name) => !name.startsWith("."));
  expect(finals).toHaveLength(processes * saves);
  for (const name of finals)
    expect((await readFile(join(root, name))).equals(content), name).toBe(true);
  await rm(root, { recursive: true });
});

test("a part that another process takes for an orphan stays with its owner, and both saves succeed", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-"));
  let slow: ServerResponse | undefined;
  await using server = await startFileServer({
    content,
    before(_req, res) {
      if (slow) return false;
      slow = res;
      const named = { etag: '"v1"', "mcp-resource-uri": "x://a/b.bin" };
      res.writeHead(200, { ...named, "content-length": content.length });
      res.write(content.subarray(0, 1_000_000));
      return true;
    },
  });
  const script = inject("programs")["packages/client/test/saving-process.ts"]!;
  const other = await startSaving(script, server.url, root, 1, 1);
  const isRecord = (name: string): boolean => name.endsWith(".json");
  await expect.poll(async () => (await readdir(root)).some(isRecord)).toBe(true);
  // a record that is being made by a writer that does not do it at once
  await writeFile(join(root, (await readdir(root)).find(isRecord)!), "");
  const stream = await streamResource(createRawClient(server.url, withStreaming()), "x://a/b.bin");
  await stream.saveTo(root, { resume: true });
  slow?.end(content.subarray(1_000_000));
  expect(await exitOf(other)).toBe(0);
  const finals = await readdir(root);
  expect(finals).toHaveLength(2);
  for (const name of finals)
    expect((await readFile(join(root, name))).equals(content), name).toBe(true);
  await rm(root, { recursive: true });
});

test("bytes are hashed beside the transfer also in a process whose own script is given as text", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-"));
  await using server = await startFileServer({ content: Buffer.alloc(9_000_000, "fox") });
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
