import { ConcurrencyLimiter, Notifier } from "@sluice/core/internal";
import { expect, test } from "vitest";

test("a limiter counts each key by itself, and what is given back twice counts once", () => {
  const limiter = new ConcurrencyLimiter();
  const first = limiter.take("a", 2);
  expect([limiter.take("a", 2), limiter.take("b", 1)]).toEqual([
    expect.any(Function),
    expect.any(Function),
  ]);
  expect([limiter.take("a", 2), limiter.take("b", 1)]).toEqual([undefined, undefined]);
  first!();
  first!();
  expect(limiter.take("a", 2)).toBeDefined();
  expect(limiter.take("a", 2)).toBeUndefined();
});

test("a notifier wakes all that wait, and keeps one piece of news for the next wait", async () => {
  const news = new Notifier();
  const both = Promise.all([news.wait(), news.wait()]);
  news.notify();
  await both;
  news.notify();
  news.notify();
  await news.wait();
  let isOver = false;
  const next = news.wait().then(() => (isOver = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(isOver).toBe(false);
  news.notify();
  expect(await next).toBe(true);
});
