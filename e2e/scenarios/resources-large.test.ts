// @module-tag slow
import { closeSync, existsSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { call } from "../bed/raw.ts";
import { startProgram } from "../bed/program.ts";
import type { Memory } from "../bed/watch.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const count = isDeep ? 1_000_000 : 1_200;
const pageSize = 100;
// making the files takes longer than listing them, unless they are in memory
const memory = "/dev/shm";
const mebibyte = 1024 * 1024;

const root = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "sluice-large-"));
beforeAll(() => {
  for (let n = 0; n < count; n++) closeSync(openSync(join(root, String(n)), "w"));
}, 300_000);
afterAll(() => rmSync(root, { recursive: true }), 300_000);

const middle = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

describe.each(["without access rules", "with access rules"])("a folder %s", (kind) => {
  test(
    `pages ${count} files over MCP: each once, the last page as quickly as the first, in memory that stays`,
    { timeout: 900_000 },
    async () => {
      const hasRules = kind === "with access rules";
      const settings = { root, pageSize, ...(hasRules && { hides: "/7" }) };
      await using server = await startProgram<{ url: string }>("serve", settings);
      const settled = () => server.ask<Memory & { held: number }>("settled memory");
      const seen = new Uint8Array(count);
      const early: number[] = [];
      const late: number[] = [];
      let pages = 0;
      const list = async (times: number[], params: Record<string, unknown>) => {
        const startedAt = performance.now();
        const answer = await call(server.hello.url, "resources/list", params);
        times.push(performance.now() - startedAt);
        return answer;
      };
      let before = await settled();
      let cursor: string | undefined;
      do {
        const params = { ...(cursor !== undefined && { cursor }) };
        const { message } = await list(late, params);
        pages++;
        // in turn with the last pages, so that both meet the same machine
        if (pages > count / pageSize - 200) await list(early, {});
        const result = message!.result as { resources: { name: string }[]; nextCursor?: string };
        for (const { name } of result.resources) seen[Number(name)]! += 1;
        cursor = result.nextCursor;
        // the first pages grow the heap to what any work needs
        if (pages === Math.min(500, count / pageSize / 2)) before = await settled();
      } while (cursor !== undefined);
      const after = await settled();
      const grownMiB = (after.now - before.now) / mebibyte;
      // what the process could not give back; the system's figure has what the allocator keeps, too
      const heldMiB = (after.held - before.held) / mebibyte;

      if (hasRules) seen[7]! += 1;
      expect([seen.indexOf(0), seen.findIndex((n) => n > 1)]).toEqual([-1, -1]);
      const first = middle(early);
      const last = middle(late.slice(-early.length));
      console.info(
        `${pages} pages ${kind}: first ${first.toFixed(1)} ms, last ${last.toFixed(1)} ms, memory +${grownMiB.toFixed(1)} MiB, held +${heldMiB.toFixed(1)} MiB`,
      );
      expect(heldMiB).toBeLessThan(16);
      expect(grownMiB).toBeLessThan(64);
      // a handful of pages on a busy machine says nothing about time
      expect(isDeep ? last / first : 1).toBeLessThan(1.5);
    },
  );
});
