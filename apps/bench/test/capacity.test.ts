import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { withCapacity } from "../src/lib/capacity.ts";
import { drawCurve } from "../src/lib/drawing.ts";
import type { Table } from "../src/lib/table.ts";

const one = (median: number) => ({ median, min: median, max: median, n: 1 });
const row = (name: string, kib: number) => ({
  name,
  cells: { kib: one(kib), microseconds: one(100) },
});
const scale: Table = {
  id: "scale",
  title: "Scale",
  how: "",
  columns: [],
  rows: [
    row("session, beside 1", 99),
    row("session, beside 100", 15),
    row("session, beside 1,000", 16),
  ],
  reach: [],
};

describe("capacity", () => {
  test("figures of a run stand between the marks of the page, and the rest stays", async () => {
    const path = new URL("../../../docs/guides/deploy/capacity.md", import.meta.url);
    const page = await readFile(path, "utf8");
    const written = withCapacity(page, [scale]);
    expect(written).toContain("| session | 16.0 | 45,875 | 100 | 7,000 |");
    expect(withCapacity(written, [scale])).toBe(written);
    expect(written.split("<!--")[0]).toBe(page.split("<!--")[0]);
    expect(written.split("-->").at(-1)).toBe(page.split("-->").at(-1));
  });

  test("a page without marks, and a run without the table, are told", () => {
    expect(() => withCapacity("# Capacity\n", [scale])).toThrow("lost its marks");
    const marks =
      "<!-- written by `npm run bench -- --publish`: begin -->\n<!-- written by `npm run bench -- --publish`: end -->";
    expect(() => withCapacity(marks, [])).toThrow("no table of scale");
  });

  test("a curve has a line for each kind, over counts by factors of ten", () => {
    const points = [
      [1, 2],
      [10, 2],
      [100, 3],
    ] as const;
    const drawing = drawCurve("Scale", { title: "KiB", lines: [{ name: "a", points }] });
    expect(drawing.match(/<polyline/g)).toHaveLength(1);
    expect(drawing).not.toContain("NaN");
  });
});
