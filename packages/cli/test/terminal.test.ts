import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { tableHeading } from "../src/server-calls/list-resources.ts";
import { serveHere } from "./run-here.ts";
import { program, runCommand, type Run, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

// util-linux's script gives a program a terminal; the one of BSD and macOS takes other arguments
const terminal = "script";
const isThere = spawnSync(terminal, ["--version"], { encoding: "utf8" }).stdout?.includes(
  "util-linux",
);
if (!isThere)
  console.log("terminal tests skipped: there is no util-linux `script` to make a terminal");

let root = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  await mkdir(join(root, "files"));
  await writeFile(join(root, "files", "big.bin"), Buffer.alloc(32 * 1024 ** 2));
  served = await serveHere(join(root, "files"));
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** Runs `sluice` on a terminal of 80 columns: standard output and error come as one. */
function onTerminal(args: readonly string[]): Promise<Run> {
  const line = [...program, ...args].map((word) => `'${word}'`).join(" ");
  return runCommand([terminal, "-qec", `stty cols 80; ${line}`, "/dev/null"], {
    env: { TERM: "xterm" },
  });
}

test.skipIf(!isThere)(
  "get draws a bar with rate and time left, and wipes it",
  { tags: "slow" },
  async () => {
    const path = join(root, "copy");
    const { status, stdout } = await onTerminal([
      "get",
      served.url,
      "files://local/big.bin",
      "-o",
      path,
    ]);
    expect(status).toBe(0);
    const [bars, rest] = [stdout.slice(0, stdout.lastIndexOf("\r\u001b[K")), stdout];
    expect(bars).toMatch(/[█░]{8,} +\d+% .* of 32\.0 MiB/);
    for (const drawn of bars.split("\r").slice(1)) expect(drawn.length).toBeLessThanOrEqual(80 + 3);
    expect(rest.trimEnd().split("\r\n").at(-1)).toBe(path);
  },
);

test.skipIf(!isThere)("ls prints a table", { tags: "slow" }, async () => {
  const { status, stdout } = await onTerminal(["ls", served.url]);
  expect(status).toBe(0);
  const [heading, row] = stdout.split("\r\n");
  expect(heading).toBe(tableHeading);
  expect(row).toMatch(
    /^32\.0 MiB {2}\d{4}-\d\d-\d\d \d\d:\d\d {2}application\/octet-stream +files:\/\/local\/big\.bin$/,
  );
});
