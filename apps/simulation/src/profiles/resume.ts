import type { Profile } from "../run/profile.ts";
import { CountingCalls } from "../system/counting-calls.ts";
import { drawSkews, redisFaults, usualFaults } from "../system/mixes.ts";
import { Scene } from "../system/scene.ts";

/** Calls whose streams of events break, and are resumed at other servers, which are killed. */
export const resume: Profile = {
  name: "resume",
  summary:
    "streams of events (SEP-1335) that break and are resumed at other servers, which are killed",
  edits: [],
  mutants: [
    {
      name: "a reader gets the last event again",
      runs: 30,
      edits: [
        {
          file: "resume/src/stream/event-feed.ts",
          from: "      after: seq,\n",
          to: "      after: Math.max(0, seq - 1),\n",
        },
      ],
    },
    {
      name: "a client does not say which event it got last",
      runs: 30,
      edits: [
        {
          file: "resume/src/client/event-flow.ts",
          from: 'this.#lastEventId = id === "" ? undefined : id;',
          to: "this.#lastEventId = undefined;",
        },
      ],
    },
    {
      name: "an event is written again after a lost reply",
      runs: 60,
      edits: [
        {
          file: "resume/src/stream/stream-writer.ts",
          from: "text, now, seq, ask, last }",
          to: "text, now, ask, last }",
        },
      ],
    },
    {
      name: "an event that cannot be kept at once is left out",
      runs: 60,
      edits: [
        {
          file: "resume/src/stream/stream-writer.ts",
          from: "        await this.pause(retryMs);\n",
          to: "        return;\n",
        },
      ],
    },
    {
      name: "a call whose process was killed is taken over and never ends",
      runs: 60,
      edits: [
        {
          file: "resume/src/server/take-over.ts",
          from: '  if (!reruns || !record) {\n    await writer.fail("interrupted");\n',
          to: "  if (!reruns || !record) {\n",
        },
      ],
    },
  ],
  begin(run) {
    const calls = new CountingCalls(run);
    const scene = new Scene(run, {
      // no proxy repeats a POST, and MCP has no key by which a server could tell
      faults: { ...usualFaults, "request comes twice": 0, ...redisFaults },
      cluster: (own) => ({
        servers: 2,
        redis: "durable",
        skewsMs: drawSkews(own, 2),
        resume: { holdMs: 3_000, retryMs: 100, leaseMs: 3_000 },
        addTools: (server, life) => calls.addTo(server, life),
      }),
    });
    const { world, random, cluster, clients, workload } = scene;
    for (let count = 1; count <= 6; count++) {
      const machine = random.pick(clients);
      const name = `${machine.name} calls ${count}`;
      workload.begin(name, random.next() * 5_000, async () => {
        await calls.call(name, cluster, machine);
      });
    }
    scene.planServerCrashes({ times: [0, 3], withinMs: 15_000 });
    return scene.phases({
      async calm() {
        await world.sleep(60_000);
        for (const count of [1, 2, 3])
          await calls.callInCalm(`c0 calls in calm ${count}`, cluster, clients[0]!);
      },
    });
  },
};
