import { ChecksMemory, createFileChecks } from "../src/checks/file-checks.ts";
import { expect, test } from "vitest";

test("checks that saw other bytes than storage has are not gone on with", async () => {
  for (const offset of [4, 6]) {
    const memory = new ChecksMemory();
    const checks = createFileChecks({ accept: [] });
    await checks.add(Buffer.from("12345"));
    memory.put("file", checks);
    expect(memory.take("file", offset)).toBeUndefined();
    // they are dropped
    expect(memory.take("file", 5)).toBeUndefined();
  }
});
