import { nextTurn, ResultGap, TurnQueue } from "@sluice/core/internal";
import { expect, test } from "vitest";

/** Starts work in microtasks, as the MCP SDK does for a notification. */
function noting(log: string[], name: string): () => void {
  return () => {
    log.push(name);
    void Promise.resolve()
      .then(() => name)
      .then((handled) => log.push(`${handled} is handled`));
  };
}

test("tasks that come in one turn run in order, each after all that the one before started", async () => {
  const log: string[] = [];
  const turns = new TurnQueue();
  for (const name of ["a", "b", "c"]) turns.run(noting(log, name));
  for (let turn = 0; turn < 4; turn += 1) await nextTurn();
  expect(log).toEqual(["a", "a is handled", "b", "b is handled", "c", "c is handled"]);
});

test("a task that finds no other waiting runs at once", async () => {
  const turns = new TurnQueue();
  for (let round = 0; round < 3; round += 1) {
    let isDone = false;
    turns.run(() => (isDone = true));
    expect(isDone).toBe(true);
    await nextTurn();
  }
});

test("a task that a task adds runs after those that wait", async () => {
  const log: string[] = [];
  const turns = new TurnQueue();
  turns.run(() => turns.run(() => log.push("last")));
  turns.run(() => log.push("second"));
  for (let turn = 0; turn < 4; turn += 1) await nextTurn();
  expect(log).toEqual(["last", "second"]);
});

test("a result keeps its distance from the notification before it, and nothing else waits", () => {
  let now = 0;
  const gap = new ResultGap({ now: () => now, schedule: () => () => {} });
  const notification = { method: "notifications/progress" };
  const result = { id: 1, result: {} };
  expect(gap.waitMs(result)).toBe(0);
  expect(gap.waitMs(notification)).toBe(0);
  expect(gap.waitMs(notification)).toBe(0);
  expect(gap.waitMs(result)).toBe(10);
  now = 4;
  expect(gap.waitMs(result)).toBe(6);
  now = 10;
  expect(gap.waitMs(result)).toBe(0);
});
