import type { Profile } from "../run/profile.ts";
import { LinkTrials } from "../system/link-trials.ts";
import { drawSkews, redisFaults, usualFaults } from "../system/mixes.ts";
import { Rotation } from "../system/rotation.ts";
import { Scene } from "../system/scene.ts";

/** Links that end with sessions, revocations and keys, in processes whose clocks differ and whose keys rotate. */
export const sessions: Profile = {
  name: "sessions",
  summary:
    "links of sessions that end, of principals that are revoked and under keys that rotate, in processes that are killed",
  edits: [],
  mutants: [
    {
      name: "a token that was opened once works without its key",
      runs: 40,
      edits: [
        {
          file: "server/src/urls/open-grant.ts",
          from: "entry.sealingKey === this.#keyOf(token)\n    )",
          to: "entry.sealingKey !== null\n    )",
        },
        {
          file: "server/src/urls/open-grant.ts",
          from: "const keptMs = 1_000;",
          to: "const keptMs = 60_000;",
        },
      ],
    },
    {
      name: "a link outlives its session",
      runs: 40,
      edits: [
        {
          file: "server/src/urls/redeem.ts",
          from: "    await this.#parts.grants.ensureSession(grant);\n    return grant.link?.minter;",
          to: "    return grant.link?.minter;",
        },
      ],
    },
    {
      name: "a link is not bound to its session",
      runs: 40,
      edits: [
        {
          file: "server/src/urls/grants.ts",
          from: 'if (this.#isRevocable || kind === "link") await bindSession',
          to: 'if (kind !== "link") await bindSession',
        },
      ],
    },
    {
      name: "the end of a session is not marked",
      runs: 40,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "endsAt .. ' 1 ' .. owner",
          to: "endsAt .. ' 0 ' .. owner",
        },
      ],
    },
    {
      name: "a revocation is kept for a second",
      runs: 40,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "'PX', whole(life))\nreturn 1\n`);\n\n// A record is",
          to: "'PX', 1000)\nreturn 1\n`);\n\n// A record is",
        },
      ],
    },
    {
      name: "a stored token is forgotten before its time",
      runs: 40,
      edits: [
        {
          file: "state/src/tokens/sealed-records.ts",
          from: "issued.expiresAt + 2 * clockSkewMs;",
          to: "issued.expiresAt - 150_000;",
        },
      ],
    },
    {
      name: "a new ring seals with the key of the old one",
      runs: 40,
      edits: [
        {
          file: "core/src/tokens/key-ring.ts",
          from: "      ring = readRing(other);\n",
          to: "      ring = { ...readRing(other), current: ring.current };\n",
        },
      ],
    },
  ],
  begin(run) {
    const rotation = new Rotation();
    const scene = new Scene(run, {
      faults: { ...usualFaults, ...redisFaults },
      cluster: (own) => ({
        servers: 2,
        redis: "durable",
        skewsMs: drawSkews(own, 2),
        keysFor: (life) => rotation.ringFor(life),
        sluice: { links: { tokens: own.pick(["stored", "sealed"]) } },
      }),
    });
    const { world, random, workload } = scene;
    const trials = new LinkTrials(scene, {
      ttlsMs: [10_000, 60_000, 60_000],
      uses: ["once", "window", "window"],
      maxRedemptions: 12,
      sessions: ["one", "two", "three"],
      rotation,
    });
    for (let count = 1; count <= 8; count++)
      workload.begin(`s makes link ${count}`, random.next() * 60_000, () =>
        trials.use(`link ${count}`, world.random(`link ${count}`)),
      );
    void rotation.run(scene, random.pick([5_000, 20_000, 40_000]));
    scene.planServerCrashes({ times: [0, 3], withinMs: 100_000 });
    return scene.phases({
      async calm() {
        await world.sleep(60_000);
        await trials.useFresh();
      },
    });
  },
};
