// Programs that have never heard of MCP send files to a slot.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Uploads } from "@sluice/uploads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bytesOf, sha256 } from "../bed/content.ts";
import { call } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const content = bytesOf(8 * 1024 * 1024, "slot");
const terms = { accept: [], maxBytes: content.length, maxFiles: 1 };
const program = fileURLToPath(new URL("../bed/programs/send-tus.mjs", import.meta.url));

let folder: string;
let site: Site;
let wire: Wire;
let uploads: Uploads;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-slots-"));
  await writeFile(join(folder, "photo.bin"), content);
  site = await startSite({
    front: async (target) => (wire = await createWire(target)),
    asking: (_, asked) => (uploads = asked),
  });
  await call(site.url, "tools/list", {});
});
afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** Sends the file to a slot as tus-js-client does; resolves with the lines that it printed. */
async function sendByTus(url: string, onStep: () => void = () => {}): Promise<string[]> {
  const child = spawn(process.execPath, [program, url, join(folder, "photo.bin")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: string[] = [];
  const ended = once(child, "close");
  for await (const line of createInterface(child.stdout)) {
    lines.push(line);
    onStep();
  }
  await ended;
  return lines;
}

const sent = { size: content.length, sha256: sha256(content) };

test("tus-js-client sends a file in steps", { tags: "slow" }, async () => {
  const { url, uploadId } = await uploads.reserve(undefined, terms);
  const lines = await sendByTus(url);
  expect(lines.at(-1)).toBe("done");
  expect(lines.length).toBeGreaterThan(8);
  expect(await uploads.received(undefined, uploadId)).toMatchObject([sent]);
});

test("tus-js-client goes on after a cut", { tags: "slow" }, async () => {
  const { url, uploadId } = await uploads.reserve(undefined, terms);
  let steps = 0;
  const lines = await sendByTus(url, () => {
    if (++steps !== 2) return;
    wire.cut();
    setTimeout(() => wire.mend(), 20);
  });
  expect(lines.at(-1)).toBe("done");
  expect(await uploads.received(undefined, uploadId)).toMatchObject([sent]);
});
