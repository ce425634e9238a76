import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { stdioClients } from "./stdio-client.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-size-"));
  vi.stubEnv("XDG_STATE_HOME", join(root, "state"));
  for (const name of ["files", "inbox", "out"]) await mkdir(join(root, name));
});
afterAll(() => {
  vi.unstubAllEnvs();
  return rm(root, { recursive: true });
});

test(
  "all tools of serve together take a model at most 1,200 tokens",
  { tags: "slow" },
  async () => {
    const args = [join(root, "files"), "--stdio"];
    const more = ["--uploads", join(root, "inbox"), "--save-to", join(root, "out")];
    await using client = await stdioClients["SDK 2, MCP 2026-07-28"]([...args, ...more]);
    const { tools } = await client.listTools();
    expect(tools).toHaveLength(6);
    expect(JSON.stringify(tools)).not.toContain("$schema");
    const tokens = countTokens(JSON.stringify(tools));
    expect(tokens).toBeLessThanOrEqual(1_200);
  },
);
