import type { Profile } from "../run/profile.ts";
import { LinkTrials } from "../system/link-trials.ts";
import { drawSkews, redisFaults, usualFaults } from "../system/mixes.ts";
import { Scene, type Times } from "../system/scene.ts";

/** Links that are redeemed at several servers, whose clocks differ, over a Redis that fails and forgets. */
export const links: Profile = {
  name: "links",
  summary:
    "links of one use and of many, revoked, in processes whose clocks differ, over a Redis that loses keys",
  edits: [],
  mutants: [
    {
      name: "a claim is kept only as long as the link lives by one clock",
      runs: 150,
      edits: [
        {
          file: "state-redis/src/lib/redis-state-store.ts",
          from: "        expiresAt + 2 * clockSkewMs + graceMs,\n",
          to: "        expiresAt,\n",
        },
      ],
    },
    {
      name: "a claim is kept for five seconds",
      runs: 60,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "redis.call('PEXPIRE', KEYS[1], whole(forgetAt - now))",
          to: "redis.call('PEXPIRE', KEYS[1], 5000)",
        },
      ],
    },
    {
      name: "a Redis that forgot claims is asked at once",
      runs: 150,
      edits: [
        {
          file: "state-redis/src/lib/redis-state-store.ts",
          from: 'const margin = durable ? "" : clockSkewMs + timeoutMs + 1_000;',
          to: 'const margin = "";',
        },
      ],
    },
    {
      name: "one use is not counted",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "if use == 'window' then return 'granted' end",
          to: "if use ~= 'lease' then return 'granted' end",
        },
      ],
    },
    {
      name: "a revocation of one link is not looked at",
      runs: 60,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "for n = 2, 4 do",
          to: "for n = 3, 4 do",
        },
      ],
    },
    {
      name: "a revocation does not reach processes whose clock is ahead",
      runs: 150,
      edits: [
        {
          file: "server/src/urls/revoke.ts",
          from: 'now: shared === false && !("id" in selector) ? now : now + clockSkewMs,',
          to: "now,",
        },
      ],
    },
    {
      name: "the permit of a stream is not given back when a link is refused",
      runs: 60,
      edits: [
        {
          file: "server/src/urls/redeem.ts",
          from: "      release();\n      // a provider gives its URL",
          to: "      // a provider gives its URL",
        },
      ],
    },
  ],
  begin(run) {
    const scene = new Scene(run, {
      faults: { ...usualFaults, ...redisFaults },
      cluster: (own) => ({
        servers: 2,
        redis: own.chance(0.4) ? "durable" : "forgetful",
        skewsMs: drawSkews(own, 2),
        sluice: { links: { tokens: own.pick(["stored", "sealed"]) } },
      }),
    });
    const { world, random, cluster, workload } = scene;
    const trials = new LinkTrials(scene);
    for (let count = 1; count <= 6; count++)
      workload.begin(`s makes link ${count}`, random.next() * 60_000, () =>
        trials.use(`link ${count}`, world.random(`link ${count}`)),
      );
    const within: Times = { times: [0, 3], withinMs: 120_000 };
    scene.plan("redis restarts", within, (own) => {
      cluster.redis!.stop();
      world.after(own.next() * 4_000, () => cluster.redis!.start(own));
    });
    scene.planServerCrashes(within);
    return scene.phases({
      async calm() {
        cluster.redis!.start(random);
        await world.sleep(60_000);
        await trials.useFresh();
      },
    });
  },
};
