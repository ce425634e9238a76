import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { runConnections, type RunningConnections } from "../src/save/fetch-into.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Rejects if a connection or a look goes on for ever. */
async function timePasses(): Promise<void> {
  await vi.runAllTimersAsync();
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs connections over `pieces` pieces of work, each of which takes as long as `work`. */
function runOver(
  pieces: number,
  options: {
    readonly most: number;
    readonly isBusy: () => boolean;
    readonly work: (connections: RunningConnections, piece: number) => Promise<"done" | "refused">;
  },
): { readonly ended: Promise<void>; readonly counts: number[]; readonly done: number[] } {
  const waiting = Array.from({ length: pieces }, (_, piece) => piece);
  const counts: number[] = [];
  const done: number[] = [];
  const { most, isBusy, work } = options;
  const ended = runConnections({ most, isBusy, cancel: () => {} }, async (connections) => {
    for (let piece = waiting.shift(); piece !== undefined; piece = waiting.shift()) {
      counts.push(connections.count());
      if ((await work(connections, piece)) === "done") done.push(piece);
      else {
        waiting.unshift(piece);
        if (connections.count() > 1) {
          connections.refuse();
          break;
        }
      }
      if (connections.areTooMany()) break;
    }
    connections.leave();
  });
  return { ended, counts, done };
}

async function takes(ms: number): Promise<"done"> {
  await sleep(ms);
  return "done";
}

test("a file that waits for bytes is fetched over as many connections as are allowed", async () => {
  const { ended, counts, done } = runOver(100, {
    most: 5,
    isBusy: () => false,
    work: () => takes(5),
  });
  await timePasses();
  await ended;
  expect(Math.max(...counts)).toBe(5);
  expect(done).toHaveLength(100);
});

test("a file that is busy is fetched over one connection", async () => {
  const { ended, counts } = runOver(30, { most: 8, isBusy: () => true, work: () => takes(5) });
  await timePasses();
  await ended;
  expect(new Set(counts)).toEqual(new Set([1]));
});

test("connections leave while the file is busy, and all of it is fetched", async () => {
  let isBusy = false;
  const { ended, counts, done } = runOver(400, {
    most: 8,
    isBusy: () => isBusy,
    work: (_connections, piece) => ((isBusy = piece > 60), takes(4)),
  });
  await timePasses();
  await ended;
  expect(Math.max(...counts)).toBe(8);
  expect(counts.at(-1)).toBe(1);
  expect(done).toHaveLength(400);
});

test("a connection that the server refuses is not opened again, and the last one stays", async () => {
  let refused = 0;
  const { ended, counts, done } = runOver(200, {
    most: 8,
    isBusy: () => false,
    async work(connections) {
      await sleep(3);
      if (connections.count() <= 3) return "done";
      refused += 1;
      return "refused";
    },
  });
  await timePasses();
  await ended;
  expect(done).toHaveLength(200);
  expect(refused).toBeLessThan(8);
  expect(counts.slice(-50).every((count) => count <= 3)).toBe(true);
});

test("the reason of the first that fails is the reason of all, once all are over", async () => {
  let over = 0;
  let reason: unknown;
  const ended = runConnections(
    { most: 4, isBusy: () => false, cancel: (error) => void (reason = error) },
    async (_connections, isFirst) => {
      await sleep(isFirst ? 60 : 90);
      over += 1;
      if (isFirst) throw new Error("broken");
    },
  );
  await Promise.all([expect(ended).rejects.toThrow("broken"), timePasses()]);
  expect(reason).toEqual(new Error("broken"));
  expect(over).toBe(4);
});

test("none is opened once one has failed", async () => {
  let opened = 0;
  const ended = runConnections(
    { most: 8, isBusy: () => opened > 2, cancel: () => {} },
    async () => {
      opened += 1;
      if (opened === 2) throw new Error("broken");
      await sleep(80);
    },
  );
  await Promise.all([expect(ended).rejects.toThrow("broken"), timePasses()]);
  expect(opened).toBe(2);
});
