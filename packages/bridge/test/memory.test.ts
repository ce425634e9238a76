// @module-tag slow
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import type { SpoolingCost } from "./spooling-process.ts";

const mib = 2 ** 20;
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep)
  console.info("8 MiB only, and one kind for each framing: 200 MiB of both run with SLUICE_DEEP");
const kinds = isDeep
  ? ["document", "events", "lines"].flatMap((framing) =>
      ["blob", "text"].map((kind) => [framing, kind] as const),
    )
  : ([
      ["document", "blob"],
      ["events", "text"],
      ["lines", "blob"],
    ] as const);
const fileBytes = (isDeep ? 200 : 8) * mib;

async function run(...args: readonly string[]): Promise<SpoolingCost> {
  const program = inject("programs")["packages/bridge/test/spooling-process.ts"]!;
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args]);
  console.info(`${args.join(" ")}: ${stdout}`);
  return JSON.parse(stdout) as SpoolingCost;
}

for (const [framing, kind] of kinds)
  test(`${framing}: a ${kind} of ${fileBytes} bytes needs no memory of its size`, async () => {
    const cost = await run(framing, kind, String(fileBytes));
    expect(cost.isSame).toBe(true);
    expect(cost.fileBytes).toBe(fileBytes);
    expect(cost.givenBytes).toBeLessThan(2_048);
    expect(cost.grownBytes).toBeLessThan(64 * mib);
  });

test("a reader that keeps the text is found", async () => {
  const cost = await run("document", "blob", String((isDeep ? 100 : 60) * mib), "keep");
  expect(cost.grownBytes).toBeGreaterThan(64 * mib);
});
