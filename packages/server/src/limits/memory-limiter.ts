import type { RateLimiter } from "./rate-limits.ts";

const windowMs = 60_000;
const maxKeys = 10_000;

/** `maxPoints` a minute for each key, in bounded memory: what comes for further keys in that minute shares one count. */
export function createMemoryLimiter(maxPoints: number): RateLimiter {
  const counts = new Map<string, number>();
  let endsAt = 0;
  return {
    async consume(key, points) {
      const now = Date.now();
      if (now >= endsAt) {
        counts.clear();
        endsAt = now + windowMs;
      }
      const counted = counts.has(key) || counts.size < maxKeys ? key : "others";
      const count = (counts.get(counted) ?? 0) + points;
      counts.set(counted, count);
      if (count > maxPoints)
        throw Object.assign(new Error("too many in this minute"), { msBeforeNext: endsAt - now });
    },
  };
}
