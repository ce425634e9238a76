import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const tools = fileURLToPath(new URL("..", import.meta.url));

test("a tool runs even in a clone behind a link", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-link-"));
  try {
    symlinkSync(tools, join(folder, "tools"));
    const { status, stderr } = spawnSync(process.execPath, [join(folder, "tools", "pack.mjs")], {
      encoding: "utf8",
      timeout: 60_000,
    });
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(/^usage: /) });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("every tool asks isMain whether it is the program", () => {
  const asking = readdirSync(tools).filter(
    (name) =>
      name.endsWith(".mjs") && /argv\[1\] === /.test(readFileSync(join(tools, name), "utf8")),
  );
  expect(asking).toEqual([]);
});
