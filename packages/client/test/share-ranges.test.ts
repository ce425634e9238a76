import * as fc from "fast-check";
import { expect, test } from "vitest";
import { shareRanges } from "../src/save/fetch-into.ts";
import { createWatermark } from "../src/save/part-file.ts";

test("with fast and slow connections, every byte is fetched exactly once", () => {
  const speeds = fc.array(
    fc.record({ speed: fc.integer({ min: 1, max: 50 }), goesOn: fc.boolean() }),
    { minLength: 1, maxLength: 16 },
  );
  const sizes = fc.integer({ min: 1, max: 5_000 });
  fc.assert(
    fc.property(
      sizes,
      speeds,
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 100 }),
      (size, lanes, rounds, least) => {
        const shares = shareRanges(size, lanes.length, rounds, least);
        const seen = new Uint8Array(size);
        const mark = createWatermark();
        const running = lanes.map((lane) => ({ ...lane, at: 0, share: shares.next() }));
        let busy = true;
        for (const fetcher of running) fetcher.at = fetcher.share?.start ?? 0;
        while (busy) {
          busy = false;
          for (const fetcher of running) {
            if (!fetcher.share) continue;
            busy = true;
            const isNear = fetcher.at + fetcher.speed >= fetcher.share.end();
            if (fetcher.goesOn && isNear) fetcher.share.extend();
            const to = Math.min(fetcher.at + fetcher.speed, fetcher.share.end());
            seen
              .subarray(fetcher.at, to)
              .forEach((count, index, part) => (part[index] = count + 1));
            if (to > fetcher.at) mark.add(fetcher.at, to);
            fetcher.at = to;
            fetcher.share.note(to);
            if (to < fetcher.share.end()) continue;
            fetcher.share = shares.next();
            fetcher.at = fetcher.share?.start ?? 0;
          }
        }
        expect(seen.every((count) => count === 1)).toBe(true);
        expect(mark.value()).toBe(size);
      },
    ),
    { numRuns: 500 },
  );
});

test("the other connections fetch every byte exactly once if some end early", () => {
  const lanes = fc.array(
    fc.record({ speed: fc.integer({ min: 1, max: 50 }), steps: fc.integer({ min: 0, max: 20 }) }),
    { minLength: 1, maxLength: 16 },
  );
  const sizes = fc.integer({ min: 1, max: 5_000 });
  const least = fc.integer({ min: 1, max: 100 });
  fc.assert(
    fc.property(
      sizes,
      lanes,
      fc.integer({ min: 1, max: 8 }),
      least,
      (size, fetchers, rounds, bytes) => {
        const shares = shareRanges(size, fetchers.length, rounds, bytes);
        const seen = new Uint8Array(size);
        const running = fetchers.flatMap((fetcher) => {
          const share = shares.next();
          return share ? [{ ...fetcher, share, at: share.start }] : [];
        });
        while (running.length > 0) {
          for (const fetcher of running.slice()) {
            const { share } = fetcher;
            const leaves = fetcher.steps-- === 0 && running.length > 1;
            if (leaves) share.giveBack();
            else {
              const to = Math.min(fetcher.at + fetcher.speed, share.end());
              seen
                .subarray(fetcher.at, to)
                .forEach((count, index, part) => (part[index] = count + 1));
              fetcher.at = to;
              share.note(to);
              if (to < share.end()) continue;
            }
            const next = leaves ? undefined : shares.next();
            if (next) Object.assign(fetcher, { share: next, at: next.start });
            else running.splice(running.indexOf(fetcher), 1);
          }
        }
        expect(seen.every((count) => count === 1)).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

test("a returned range is fetched from its start", () => {
  const shares = shareRanges(800, 4, 2, 10);
  const [first, second] = [shares.next(), shares.next()];
  second?.note(150);
  second?.giveBack();
  first?.giveBack();
  expect([shares.next()?.start, shares.next()?.start, shares.next()?.start]).toEqual([0, 150, 200]);
});

test("a connection that is done early takes over half of what the slowest has left", () => {
  const shares = shareRanges(1_000, 2, 1, 10);
  const [slow, fast] = [shares.next(), shares.next()];
  fast?.note(1_000);
  slow?.note(100);
  const stolen = shares.next();
  expect([stolen?.start, stolen?.end(), slow?.end()]).toEqual([300, 500, 300]);
});

test("more rounds begin at the front and keep the finished part together", () => {
  const shares = shareRanges(800, 2, 4, 10);
  const starts = Array.from({ length: 8 }, () => shares.next()?.start);
  expect(starts).toEqual([0, 100, 200, 300, 400, 500, 600, 700]);
});

test("a watermark stands at the first gap, in whatever order blocks land", () => {
  fc.assert(
    fc.property(fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6, 7], { minLength: 8 }), (order) => {
      const mark = createWatermark();
      const done = new Set<number>();
      for (const block of order) {
        mark.add(block * 10, block * 10 + 10);
        done.add(block);
        const first = [0, 1, 2, 3, 4, 5, 6, 7, 8].find((index) => !done.has(index));
        expect(mark.value()).toBe((first ?? 0) * 10);
      }
    }),
  );
});
