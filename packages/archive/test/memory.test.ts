import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";

const run = promisify(execFile);
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("skipped: memory of archives of 100,000 files (SLUICE_DEEP)");

const mib = 2 ** 20;

for (const format of ["zip", "tar"])
  test.runIf(isDeep)(`${format}: 100,000 files need at most 64 MiB`, async () => {
    const program = inject("programs")["packages/archive/test/memory-process.ts"]!;
    const { stdout } = await run(process.execPath, [program, format]);
    console.info(`${format}: ${stdout}`);
    const { grownBytes, heldBytes } = JSON.parse(stdout) as Record<string, number>;
    expect(grownBytes).toBeLessThan(64 * mib);
    expect(heldBytes).toBeLessThan(32 * mib);
  });
