// One of several processes that redeem the same grants: `{ id, claims }` comes in, how many of them
// were granted goes out.
import { createRedisStateStore } from "@sluice/state-redis";
import { Redis } from "ioredis";

const [path = ""] = process.argv.slice(2);
const redis = new Redis({ path });
const state = createRedisStateStore({ redis, durable: true, timeoutMs: 10_000 });

interface Order {
  readonly id: string;
  readonly claims: number;
  readonly now: number;
}

async function carryOut({ id, claims, now }: Order): Promise<void> {
  const terms = { id, principal: "alice", resource: "a", issuedAt: now, expiresAt: now + 60_000 };
  const outcomes = await Promise.all(
    Array.from({ length: claims }, () => state.claim({ ...terms, use: "once" }, now)),
  );
  process.send!({ id, granted: outcomes.filter(({ outcome }) => outcome === "granted").length });
}

process.on("message", (order: Order) => void carryOut(order));
process.once("disconnect", () => redis.disconnect());
process.send!("ready");
