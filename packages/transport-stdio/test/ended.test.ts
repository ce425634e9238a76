// @module-tag slow
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, inject, test } from "vitest";
import type { Left } from "./ended-process.ts";

const connections = process.env["SLUICE_DEEP"] ? 3_000 : 500;
let left: Left;

beforeAll(async () => {
  const program = inject("programs")["packages/transport-stdio/test/ended-process.ts"]!;
  const { stdout } = await promisify(execFile)(process.execPath, [program, `${connections}`]);
  left = JSON.parse(stdout) as Left;
});

test.for<keyof Left>(["within a transfer", "between two chunks", "before the first byte"])(
  `${connections} connections that break off %s leave less than 1 MiB and 1 KiB each`,
  (kind) => {
    expect(left[kind]).toBeLessThan(2 ** 20 + 1_024 * connections);
  },
);
