import { expect, test, vi } from "vitest";
import { startChild } from "../src/lib/child.ts";
import { ensurePrograms } from "../src/lib/programs.ts";

test("a program that is missing is named in one sentence, with what to do", () => {
  vi.stubEnv("PATH", "");
  try {
    expect(ensurePrograms).toThrow(/^there is no redis-server to start: install Redis \(.+\)$/);
  } finally {
    vi.unstubAllEnvs();
  }
});

test("a program that ends before it is ready is told with the last that it said", async () => {
  const start = (command: string) =>
    startChild(command, { args: ["-c", "echo one; echo two; exit 3"], ready: /^ready$/ });
  await expect(start("sh")).rejects.toThrow("sh ended before it was ready\n  one\n  two");
  await expect(start("no-such-program")).rejects.toThrow("there is no no-such-program to start");
});
