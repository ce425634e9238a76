import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, inject, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders, stateIn } from "./filing.ts";

const main = inject("programs")["packages/cli/src/main.ts"]!;
const bytes = Buffer.alloc(24 * 2 ** 20, "0123456789abcdef and so on / ");

test("a save goes on where one ended that was killed", { tags: "slow" }, async () => {
  const { save } = makeFolders();
  const half = 16 * 2 ** 20;
  let isStalling = true;
  const ranges: unknown[] = [];
  const url = await handWritten(
    () => undefined,
    ({ headers }, response) => {
      ranges.push(headers.range);
      const [, from = 0, to = bytes.length - 1] =
        /bytes=(\d+)-(\d+)?/.exec(headers.range ?? "") ?? [];
      const [start, last] = [Number(from), Number(to)];
      response.writeHead(start > 0 ? 206 : 200, {
        "content-length": last + 1 - start,
        etag: '"1"',
        "accept-ranges": "bytes",
        ...(start > 0 && { "content-range": `bytes ${start}-${last}/${bytes.length}` }),
      });
      if (!isStalling) response.end(bytes.subarray(start, last + 1));
      let at = isStalling ? 0 : half;
      const timer = setInterval(() => {
        if (at < half) response.write(bytes.subarray(at, (at += 2 ** 20)));
      }, 250);
      response.on("close", () => clearInterval(timer));
    },
  );
  const uri = new URL("/d/big.bin", url).href;
  const command = {
    command: process.execPath,
    args: [main, "bridge", url.href, "--save-to", save],
    env: stateIn({ save }),
  };

  const killed = new StdioClientTransport(command);
  const first = new Client({ name: "host", version: "1" });
  await first.connect(killed);
  const counts: number[] = [];
  const lost = first
    .callTool(
      { name: "save_resource", arguments: { uri } },
      { onprogress: ({ progress }) => void counts.push(progress) },
    )
    .catch((error: Error) => error);
  // the record of how far it is follows the bytes
  const isRecorded = (): boolean =>
    readdirSync(save, { withFileTypes: true }).some((entry) => {
      if (!entry.isFile() || !entry.name.endsWith(".json")) return false;
      return /"keptBytes":[1-9]/.test(readFileSync(join(save, entry.name), "utf8"));
    });
  await expect.poll(isRecorded, { timeout: 30_000 }).toBe(true);
  await expect.poll(() => counts.length, { timeout: 30_000 }).toBeGreaterThan(0);
  process.kill(killed.pid!, "SIGKILL");
  expect(await lost).toBeInstanceOf(Error);

  isStalling = false;
  ranges.length = 0;
  const second = await hostOf(url, { saveTo: save });
  const saved = await callTool(second, "save_resource", { uri });
  expect(saved.isError, saved.text).toBe(false);
  expect(saved.facts["resumed_bytes"]).toBeGreaterThan(0);
  expect(readFileSync(join(save, "big.bin")).equals(bytes)).toBe(true);
  expect(readdirSync(save).toSorted()).toEqual(["big.bin", "spooled"]);
  expect(ranges).toEqual([`bytes=${Number(saved.facts["resumed_bytes"])}-`]);
});
