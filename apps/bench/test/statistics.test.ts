import { describe, expect, test } from "vitest";
import { across, quantile, ratio, summarise } from "../src/lib/statistics.ts";

describe("statistics", () => {
  test("the median of an even number of runs lies between the two in the middle", () => {
    expect(summarise([4, 1, 3, 2])).toEqual({ median: 2.5, min: 1, max: 4, n: 4 });
  });

  test("no runs give no figure", () => {
    expect(summarise([])).toBeUndefined();
    expect(across(undefined, "seconds")).toBeUndefined();
  });

  test("a quantile interpolates between its neighbours", () => {
    expect(quantile([0, 10], 0.99)).toBeCloseTo(9.9);
  });

  test("a ratio compares runs of the same round, so that drift cancels out", () => {
    const slow = [{ rate: 1 }, { rate: 10 }, { rate: 100 }];
    const fast = [{ rate: 2 }, { rate: 20 }, { rate: 200 }];
    expect(ratio(fast, slow, "rate")).toEqual({ median: 2, min: 2, max: 2, n: 3 });
  });

  test("a round whose baseline is missing or zero is left out", () => {
    expect(ratio([{ cpu: 1 }, { cpu: 2 }], [{ cpu: 0 }], "cpu")).toBeUndefined();
  });
});
