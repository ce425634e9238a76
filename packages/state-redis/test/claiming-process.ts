// One of several processes that redeem the same grants: `{ id, claims }` comes in, how many of them
// were granted goes out. Its clock may be ahead, or behind.
import { createRedisStateStore } from "@sluice/state-redis/internal";
import { Redis } from "ioredis";

const [path = "", aheadMs = "0"] = process.argv.slice(2);
const realNow = Date.now;
Date.now = () => realNow() + Number(aheadMs);
const redis = new Redis({ path });
const state = createRedisStateStore({ redis, durable: true, timeoutMs: 60_000, onWarning() {} });

interface Order {
  readonly id: string;
  readonly claims: number;
  readonly now: number;
  /** Claims this many grants, each this many times, by the clock of this process. */
  readonly grants?: { readonly count: number; readonly expiresAt: number };
}

async function carryOut({ id, claims, now, grants }: Order): Promise<void> {
  const terms = { principal: "alice", resource: "a", use: "once" } as const;
  const times = { issuedAt: now, expiresAt: grants?.expiresAt ?? now + 60_000 };
  let granted = 0;
  for (let n = 0; n < (grants?.count ?? 1); n++) {
    const name = grants ? `${id} ${n}` : id;
    const outcomes = await Promise.all(
      Array.from({ length: claims }, () =>
        state.claim({ ...terms, ...times, id: name }, grants ? Date.now() : now),
      ),
    );
    granted += outcomes.filter(({ outcome }) => outcome === "granted").length;
  }
  process.send!({ id, granted });
}

process.on("message", (order: Order) => void carryOut(order));
process.once("disconnect", () => redis.disconnect());
process.send!("ready");
