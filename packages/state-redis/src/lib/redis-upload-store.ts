import type { UploadLease, UploadStore, WriterOutcome } from "@sluice/state";
import { createCommander, unreadable, type RedisOptions, type Script } from "./redis-client.ts";
import { keyPrefix, lifeOf } from "./redis-keys.ts";
import {
  claimFileScript,
  dropFileScript,
  enterScript,
  holdFileScript,
  nowScript,
  releaseScript,
  renewScript,
  seedScript,
  settleFileScript,
} from "./upload-scripts.ts";

/**
 * An upload store that any number of processes share: limits count for all of them together, and a file
 * has one writer wherever its requests arrive. Every method is one command or one script.
 */
export function createRedisUploadStore(options: RedisOptions): UploadStore {
  const prefix = keyPrefix(options);
  const redis = createCommander("redis upload store", options);
  const accountKey = (owner: string): string => `${prefix}upload:account:${owner}:`;
  const writerKey = (fileId: string): string => `${prefix}upload:writer:${fileId}`;

  const run = (
    script: Script,
    key: string,
    { now, until }: UploadLease,
    ...further: (string | number)[]
  ): Promise<unknown> => redis.run(script, [key], [now, until, lifeOf(now, until), ...further]);

  return {
    shared: true,
    async enter(account, permit, { permits, ...lease }) {
      return (await run(enterScript, accountKey(account), lease, permit, permits)) === 1;
    },
    async leave(account, permit) {
      await redis.send("ZREM", `${accountKey(account)}permits`, permit);
    },
    async hold(owner, fileId, { bytes, maxFiles, maxBytes, ...lease }) {
      const bounds = [bytes, maxFiles, maxBytes];
      return (await run(holdFileScript, accountKey(owner), lease, fileId, ...bounds)) === 1;
    },
    async settle(owner, fileId, { bytes, ...lease }) {
      await run(settleFileScript, accountKey(owner), lease, fileId, bytes);
    },
    async drop(owner, fileId) {
      await run(dropFileScript, accountKey(owner), nothing, fileId);
    },
    async seed(owner, files, { listedAt, ...lease }) {
      const lines = files.map(({ fileId, bytes }) => `${fileId} ${bytes}`).join("\n");
      await run(seedScript, accountKey(owner), lease, listedAt, lines);
    },
    async claim(fileId, lease) {
      const answer = await run(claimFileScript, writerKey(fileId), lease);
      const [writer, outcome] = Array.isArray(answer) ? (answer as readonly unknown[]) : [];
      return {
        writer: Number(writer),
        outcome: outcomeOf(outcome) === "held" ? "held" : "waiting",
      };
    },
    async renew(fileId, writer, lease) {
      return outcomeOf(await run(renewScript, writerKey(fileId), lease, writer));
    },
    async release(fileId, writer) {
      await run(releaseScript, writerKey(fileId), nothing, writer);
    },
    async now() {
      const time = Number(await redis.run(nowScript, [`${prefix}upload:now`], [Date.now()]));
      if (!(time > 0)) throw unreadable("redis upload store");
      return time;
    },
  };
}

/** For what takes no time. */
const nothing: UploadLease = { now: 0, until: 0 };

const outcomes = ["held", "waiting", "wanted", "lost"] as const;

function outcomeOf(answer: unknown): WriterOutcome {
  const outcome = outcomes.find((known) => known === String(answer));
  if (outcome === undefined) throw unreadable("redis upload store");
  return outcome;
}
