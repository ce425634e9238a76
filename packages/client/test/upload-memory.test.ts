// @module-tag slow
import { spawn } from "node:child_process";
import { mkdtemp, open, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, inject, test } from "vitest";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const size = deep ? 2 ** 30 : 72 * 2 ** 20;
const boundBytes = 48 * 2 ** 20;

// takes everything and keeps nothing
const server = createServer((req, res) => {
  let got = 0;
  req.on("data", (chunk: Buffer) => (got += chunk.length));
  req.on("end", () => {
    const isBegun = req.headers["upload-complete"] === "?0";
    if (isBegun) return res.writeHead(201, { location: "/up/1" }).end();
    taken = Math.max(taken, got);
    return res.writeHead(201, { "upload-complete": "?1" }).end();
  });
});
let taken = 0;
let folder = "";
let path = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
  path = join(folder, "large.bin");
  // zeros that take no room on disk
  const file = await open(path, "w");
  await file.truncate(size);
  await file.close();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  server.close().closeAllConnections();
  await rm(folder, { recursive: true });
});

/** Bytes by which the memory of a process grows that sends the file. */
async function growth(wire: string, how = ""): Promise<number> {
  const program = inject("programs")["packages/client/test/sending-process.ts"]!;
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [program, origin, path, wire, how], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  taken = 0;
  return Number(await text(child.stdout));
}

test("the memory of a sender does not depend on the size of the file", async () => {
  for (const wire of deep ? ["resumable", "raw", "multipart"] : ["resumable"]) {
    const bytes = await growth(wire);
    expect(taken).toBeGreaterThanOrEqual(size);
    if (deep)
      console.log(`${wire}: 1 GiB sent, memory grew by ${(bytes / 2 ** 20).toFixed(1)} MiB`);
    expect(bytes).toBeLessThan(boundBytes);
  }
});

test("negative control: a sender that reads the whole file first is found out", async () => {
  expect(await growth("resumable", "whole")).toBeGreaterThan(boundBytes);
});
