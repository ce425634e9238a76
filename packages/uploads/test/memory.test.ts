// @module-tag slow
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as wait } from "node:timers/promises";
import { formatKey, generateKey } from "@sluice/core";
import { expect, onTestFinished, test } from "vitest";
import { serveInProcess } from "./upload-process.ts";
import { noise } from "./upload-server.ts";

const deep = Boolean(process.env["SLUICE_DEEP"]);
const MiB = 2 ** 20;
const piece = noise(MiB);

const boundary = "memory-of-forms-1234567890";
const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`;
const tail = `\r\n--${boundary}--\r\n`;

/** Sends a file of this many MiB, as it is or in a form; the status. */
function send(url: string, mebibytes: number, isForm = false): Promise<number> {
  return new Promise((resolve, reject) => {
    const around = isForm ? [Buffer.from(head), Buffer.from(tail)] : [];
    const size = mebibytes * MiB + around.reduce((sum, { length }) => sum + length, 0);
    const type = isForm ? `multipart/form-data; boundary=${boundary}` : "application/octet-stream";
    const headers = { "content-length": String(size), "content-type": type };
    const sending = httpRequest(url, { method: isForm ? "POST" : "PUT", headers });
    sending.on("response", (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    const pieces: Uint8Array[] = Array.from({ length: mebibytes }, () => piece);
    const [before, behind] = around;
    if (before && behind) pieces.splice(0, pieces.length, before, ...pieces, behind);
    pipeline(Readable.from(pieces), sending).catch(reject);
  });
}

/** Sends this many bytes over HTTP in chunks of one byte; the beginning of the response. */
async function sendByteByByte(to: string, count: number): Promise<string> {
  const { hostname, port, pathname, host } = new URL(to);
  const socket = connect(Number(port), hostname);
  socket.write(`PUT ${pathname} HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  const answer = once(socket, "data") as Promise<[Buffer]>;
  const many = Buffer.from("1\r\nX\r\n".repeat(10_000));
  for (let left = count; left > 0; left -= 10_000)
    if (!socket.write(many)) await once(socket, "drain");
  socket.write("0\r\n\r\n");
  const [beginning] = await answer;
  socket.destroy();
  return beginning.toString();
}

test("memory does not grow with a file, nor by more than a little with each of many", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-memory-"));
  const served = await serveInProcess(root, formatKey(generateKey()));
  onTestFinished(async () => {
    await served.kill();
    await rm(root, { recursive: true, force: true });
  });
  const [url = ""] = served.urls;
  const to = served.now(url);
  // what is loaded with the first file, and garbage that is not collected yet, does not count as growth
  expect(await send(to, 64)).toBe(201);
  const idle = await served.rss();

  async function growthDuring(work: Promise<unknown>): Promise<number> {
    const over = work.then(() => "over");
    let most = 0;
    do most = Math.max(most, await served.rss());
    while ((await Promise.race([over, wait(20)])) !== "over");
    return (most - idle) / MiB;
  }

  expect(await growthDuring(send(to, deep ? 1_024 : 80))).toBeLessThan(48);
  // what waits for the writer and for the hash is bounded for all of them together; a slot takes 100 files
  for (const isForm of [false, true]) {
    const many = Array.from({ length: deep ? 45 : 8 }, () => send(to, deep ? 64 : 4, isForm));
    expect(await growthDuring(Promise.all(many))).toBeLessThan(deep ? 96 : 64);
    expect(new Set(await Promise.all(many))).toEqual(new Set([201]));
  }

  const count = (deep ? 0.5 : 0.125) * MiB;
  const byteByByte = Array.from({ length: 4 }, () => sendByteByByte(to, count));
  // views of the chunks that wait for storage would take 400 times their bytes
  expect(await growthDuring(Promise.all(byteByByte))).toBeLessThan(deep ? 512 : 160);
  for (const answer of byteByByte) expect(await answer).toMatch(/^HTTP\/1\.1 201 /);
});
