// @module-tag slow
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { answerGenerated } from "./generated-blob.ts";
import { drain, type ScriptedService, startScriptedService } from "./scripted-service.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mib = 2 ** 20;
// newer releases of Node let more garbage gather before they collect it
const mostGrowth = (process.versions.node.startsWith("20.") ? 48 : 96) * mib;
// to keep this much shows, as the twin proves
const keptSize = mostGrowth + 64 * mib;
const size = deep ? 1024 * mib : 2 * mostGrowth;

let service: ScriptedService;
let received = 0;
beforeAll(async () => {
  service = await startScriptedService(async (request, response) => {
    if (request.method === "GET") {
      const bytes = Number(request.url?.split("/").at(-1));
      return answerGenerated({ size: bytes }, request, response);
    }
    received += await drain(request);
    response.writeHead(201, { etag: '"0x1"' }).end();
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
});

/** Bytes by which a separate process grew. */
async function growthOf(what: "read" | "write" | "keep", bytes: number): Promise<number> {
  const program = inject("programs")["packages/storage-azure-blob/test/memory-process.ts"]!;
  const args = [program, service.container.url, what, `${bytes}`];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const growth = Number(stdout);
  process.stdout.write(`${what}, ${bytes / mib} MiB: +${(growth / mib).toFixed(1)} MiB\n`);
  return growth;
}

describe(`${size / mib} MiB leave memory as it was`, () => {
  test.each(["read", "write"] as const)("%s", { timeout: 120_000 }, async (what) => {
    received = 0;
    expect(await growthOf(what, size)).toBeLessThanOrEqual(mostGrowth);
    expect(received).toBeGreaterThanOrEqual(what === "write" ? size : 0);
  });

  test(
    "negative control: a reader that keeps the bytes is noticed",
    { timeout: 60_000 },
    async () => {
      expect(await growthOf("keep", keptSize)).toBeGreaterThan(mostGrowth);
    },
  );
});
