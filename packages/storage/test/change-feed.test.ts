import { createChangeFeed } from "@sluice/storage/plugin";
import { expect, test } from "vitest";

test("changes that are not taken fill no memory: of too many keys only a reset is left", async () => {
  const feed = createChangeFeed("test");
  const caller = new AbortController();
  const watching = feed.watch({ signal: caller.signal })[Symbol.asyncIterator]();
  await watching.next();
  for (let n = 0; n < 10_000; n++) feed.publish(`key-${n}`, "changed");
  expect((await watching.next()).value).toMatchObject({ removed: [], cursor: expect.any(String) });
  for (let n = 0; n <= 10_000; n++) feed.publish(`key-${n}`, "changed");
  feed.publish("late", "removed");
  expect((await watching.next()).value).toEqual({ reset: true, cursor: expect.any(String) });
  feed.publish("next", "removed");
  expect((await watching.next()).value).toMatchObject({ changed: [], removed: ["next"] });
  caller.abort();
  expect((await watching.next()).done).toBe(true);
});
