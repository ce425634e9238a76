import { createSharedRuns } from "@sluice/core/internal";
import { expect, test } from "vitest";

test("calls during a run share the next, and none gets one that began before it", async () => {
  const runs: { key: string; end(fault?: Error): void }[] = [];
  const shared = createSharedRuns<number>(
    (key) =>
      new Promise((resolve, reject) => {
        const number = runs.length;
        runs.push({ key, end: (fault) => (fault ? reject(fault) : resolve(number)) });
      }),
  );
  const turn = (): Promise<void> => new Promise(setImmediate);
  const first = shared("a");
  const [second, third, other] = [shared("a"), shared("a"), shared("b")];
  expect(runs.map(({ key }) => key)).toEqual(["a", "b"]);
  runs[0]!.end(new Error("broken"));
  await expect(first).rejects.toThrow("broken");
  await turn();
  const fourth = shared("a");
  expect(runs.map(({ key }) => key)).toEqual(["a", "b", "a"]);
  runs[2]!.end();
  runs[1]!.end();
  expect(await Promise.all([second, third, other])).toEqual([2, 2, 1]);
  await turn();
  runs[3]!.end();
  expect(await fourth).toBe(3);
  void shared("a");
  expect(runs).toHaveLength(5);
});
