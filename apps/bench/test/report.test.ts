import { describe, expect, test } from "vitest";
import { drawBars, drawTraces } from "../src/lib/drawing.ts";
import { formatReach, formatTable } from "../src/lib/report.ts";
import { interleave, isKept, type Row, type Table } from "../src/lib/table.ts";

const two = { median: 2, min: 1, max: 3, n: 5 };
const column = { key: "rate", title: "rate", digits: 2, bars: true } as const;
const rows: Row[] = [
  { name: "here", cells: { rate: two } },
  { name: "a <peer>", absent: "not installed", cells: {} },
];
const table: Table = { id: "x", title: "X", how: "How.", columns: [column], rows, reach: [] };

describe("report", () => {
  test("a peer that is not installed is named and its row is empty", () => {
    expect(formatTable(table)).toContain("| a <peer> (not installed) |  |");
  });

  test("a figure comes with its range and the number of runs", () => {
    expect(formatTable(table)).toContain("| here | 2.00 (1.00–3.00, n=5) |");
  });

  test("a promise is kept, missed or not measured", () => {
    expect(isKept({ claim: "c", atLeast: 2, got: two })).toBe(true);
    expect(isKept({ claim: "c", atMost: 1.9, got: two })).toBe(false);
    expect(formatReach({ claim: "c", atLeast: 2, got: undefined })).toContain("not measured");
  });

  test("a missed promise says what the least program gets and where the time goes, a kept one does not", () => {
    const floor = { got: two, profile: "The hash takes it." };
    expect(formatReach({ claim: "c", atLeast: 3, got: two, floor })).toMatch(
      /\*\*missed\*\*\)\n  - The least program gets 2\.00 .*\. The hash takes it\.$/,
    );
    expect(formatReach({ claim: "c", atLeast: 2, got: two, floor })).not.toContain("hash");
  });

  test("drawings escape names and leave absent rows out", () => {
    const shown = [...rows, { name: "<b>", cells: { rate: two } }];
    const bars = drawBars("t", column, shown);
    expect(bars).toContain("&lt;b&gt;");
    expect(bars).not.toContain("a &lt;peer&gt;");
    expect(
      drawTraces("t", [
        {
          name: "n",
          points: [
            [0, 1],
            [1, 2],
          ],
        },
      ]),
    ).toContain("<polyline");
  });

  test("subjects are measured in rounds after one warm-up each", async () => {
    const order: string[] = [];
    const subject = (name: string) => ({
      name,
      measure: () => Promise.resolve({ place: order.push(name) }),
    });
    const samples = await interleave([subject("A"), subject("B")], { runs: 2 });
    expect(order.join("")).toBe("ABABAB");
    expect(samples.get("B")).toEqual([{ place: 4 }, { place: 6 }]);
  });
});
