import { generateKey } from "@sluice/core";
import { rerunCalls } from "@sluice/resume/rerun";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { answerTo, createResuming, eventsOf, linkOf } from "../../packages/resume/test/resuming.ts";
import { hasRedis, startRedis } from "../bed/redis.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("streams of three processes over Redis are for SLUICE_DEEP=1");
const rounds = 30;

/** Three of them with connections of their own, and the sessions of the first one in all. */
async function startThree() {
  const server = await startRedis();
  onTestFinished(() => server[Symbol.asyncDispose]());
  const keys = [generateKey()];
  const join = (host?: ReturnType<typeof createResuming>["host"]) => {
    const redis = new Redis({ path: server.path });
    onTestFinished(() => redis.disconnect());
    const one = createResuming({
      ...(host && { host }),
      sluice: { keys, stores: createRedisStores({ redis, durable: true }) },
      resume: {
        leaseMs: 400,
        retryMs: 10,
        rerun: rerunCalls({ allows: () => true, server: () => one.server() }),
      },
    });
    return one;
  };
  const first = join();
  return { first, all: [first, join(first.host), join(first.host)] as const, join };
}

test.runIf(isDeep && hasRedis)(
  "three processes in turn: each answer is heard once, each session ends everywhere, and a call outlives its process",
  async () => {
    const { first, all, join } = await startThree();
    const at = (turn: number) => all[turn % 3]!;
    for (let round = 0; round < rounds; round++) {
      const session = await at(round).open();
      const call = await at(round + 1).call("ask", session);
      const [, question] = await eventsOf(call);
      const answer = answerTo(question!, { round });
      for (const turn of [2, 0])
        expect((await at(round + turn).post(answer, session)).status).toBe(202);
      const { id } = question!;
      const headers = { ...session, "last-event-id": id! };
      const said = async () => {
        const rest = await at(round + 2).send(at(0).sluice.endpoint.url, { headers });
        return (await eventsOf(rest)).at(-1)?.message?.result !== undefined;
      };
      await expect.poll(said, { timeout: 5_000 }).toBe(true);
    }
    // the tools all run in the sessions of the first one
    const heard = first.heard.map((content) => (content as { round: number }).round);
    expect(heard.toSorted((a, b) => a - b)).toEqual(Array.from({ length: rounds }, (_, n) => n));

    const over = await at(0).open();
    await at(1).call("work", over);
    await at(2).sluice.endSession(over["mcp-session-id"]!);
    await expect.poll(() => first.aborted, { timeout: 5_000 }).toEqual(["work"]);

    const session = await at(0).open();
    const call = await at(1).call("ask", session);
    const [, question] = await eventsOf(call);
    await at(1).handler.close();
    const fourth = join();
    const rest = await fourth.at(linkOf(call), session, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify([answerTo(question!, { n: 1 })]),
    });
    expect((await eventsOf(rest)).at(-1)?.message.result).toBeDefined();
    expect(fourth.heard).toEqual([{ n: 1 }]);
    for (const { errors } of [...all, fourth]) expect(errors).toEqual([]);
  },
  60_000,
);
