import { lstatSync, readdirSync } from "node:fs";
import type * as Files from "node:fs/promises";
import { dirname } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { answer, openBench, spool } from "./spooling.ts";

const seen = vi.hoisted(() => ({ empty: [] as string[], isLinkless: false }));

vi.mock("node:fs/promises", async (importOriginal) => {
  const actual = await importOriginal<typeof Files>();
  /** What a process that is killed here leaves. */
  const look = (path: string): void => {
    for (const name of readdirSync(dirname(path)))
      if (!name.startsWith(".") && lstatSync(`${dirname(path)}/${name}`).size === 0)
        seen.empty.push(name);
  };
  return {
    ...actual,
    async link(from: string, to: string) {
      if (seen.isLinkless) throw Object.assign(new Error("no links"), { code: "ENOTSUP" });
      look(to);
      await actual.link(from, to);
    },
    async rename(from: string, to: string) {
      look(to);
      await actual.rename(from, to);
    },
  };
});

beforeEach(() => {
  seen.empty.length = 0;
  seen.isLinkless = false;
});

const long = "some text ".repeat(30);

test("a large result has its name only with all of its bytes, whenever its bridge is killed", async () => {
  await using bench = await openBench();
  await spool(bench, [answer({ content: [{ type: "text", text: long }] })]);
  expect(bench.names()).toHaveLength(1);
  expect(seen.empty).toEqual([]);
});

test("a folder without hard links takes large results, too", async () => {
  seen.isLinkless = true;
  await using bench = await openBench();
  await spool(bench, [answer({ content: [{ type: "text", text: long }] })]);
  expect(bench.names()).toEqual([expect.stringMatching(/^text-[0-9a-f]{8}\.txt$/)]);
});
