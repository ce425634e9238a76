import type { Profile } from "../run/profile.ts";
import { Listening } from "../system/listening.ts";
import { usualFaults } from "../system/mixes.ts";
import { Scene } from "../system/scene.ts";
import { Versions } from "../system/versions.ts";

/** Streams that one process keeps: all clients may be at one. */
const maxListeners = 6;

/** Clients that listen for changes at servers that are killed, over storage whose watch breaks. */
export const listen: Profile = {
  name: "listen",
  summary:
    "streams that tell of changes, over servers that are killed, connections that break and storage whose watch breaks",
  edits: [],
  mutants: [
    {
      name: "a watch that broke counts as one that missed nothing",
      runs: 100,
      edits: [
        {
          file: "server/src/changes/change-hub.ts",
          from: "      waitMs = minWaitMs;\n      hasMissed = true;\n",
          to: "",
        },
      ],
    },
    {
      name: "objects are not looked at after a watch broke",
      runs: 30,
      edits: [
        {
          file: "server/src/changes/change-hub.ts",
          from: "      if (!signal.aborted) await rescan(signal);\n",
          to: "",
        },
      ],
    },
    {
      name: "changes gather once",
      runs: 30,
      edits: [
        {
          file: "server/src/changes/change-hub.ts",
          from: "    cancelFlush = undefined;\n    const { keys, isReset } = pending;",
          to: "    const { keys, isReset } = pending;",
        },
      ],
    },
    {
      name: "a new object is not a change of the list",
      runs: 30,
      edits: [
        {
          file: "server/src/changes/change-hub.ts",
          from: 'return change === "removed" ||',
          to: 'return change === "removed" &&',
        },
      ],
    },
    {
      name: "a client that left is still told",
      runs: 30,
      edits: [
        {
          file: "server/src/changes/subscriber.ts",
          from: "      for (const { hub, listener } of feeds.values()) hub.leave(listener);\n",
          to: "",
        },
      ],
    },
    {
      name: "the permit of a stream of changes is not given back",
      runs: 30,
      edits: [
        {
          file: "server/src/changes/listen.ts",
          from: "    subscriber.close();\n    release();\n  };",
          to: "    subscriber.close();\n  };",
        },
      ],
    },
    {
      name: "a reader that waits is not told of a change",
      runs: 30,
      edits: [
        {
          file: "storage/src/plugin/change-feed.ts",
          from: "        if (reader.missed) reader.pending.clear();\n        reader.news.notify();",
          to: "        if (reader.missed) reader.pending.clear();",
        },
      ],
    },
  ],
  begin(run) {
    const scene = new Scene(run, {
      faults: {
        ...usualFaults,
        "request comes twice": 0,
        "storage watch breaks": 0.8,
        "client leaves": 0.9,
      },
      cluster: (own) => ({
        servers: 2,
        canWatch: own.chance(0.7),
        sluice: { limits: { listeners: { perPrincipal: maxListeners, perProcess: maxListeners } } },
      }),
    });
    const { world, random, cluster, clients, workload } = scene;
    const versions = new Versions(world, cluster.files.objects);
    const listening = new Listening(run, cluster, versions);
    const keys = ["a.bin", "b.bin", "c.bin"];
    for (const key of keys) listening.change(key, random);
    for (let count = 1; count <= 4; count++) {
      const name = `${random.pick(clients).name} listens ${count}`;
      const own = world.random(name);
      listening.begin(
        own.pick(clients),
        name,
        own.pick([keys, ["a.bin"], ["b.bin", "c.bin"]]),
        own,
      );
    }
    const withinMs = 60_000;
    for (let count = 1; count <= 20; count++) {
      const own = world.random(`change ${count}`);
      const key = own.chance(0.4) ? `new-${count}.bin` : own.pick(keys);
      workload.begin(`storage changes ${key} (${count})`, own.next() * withinMs, async () =>
        listening.change(key, own),
      );
    }
    scene.planServerCrashes({ times: [0, 4], withinMs });
    scene.planClientCrashes({ times: [0, 2], withinMs });
    return scene.phases({
      async calm() {
        await listening.checkAll("after the faults");
        for (const key of keys) listening.change(key, random);
        listening.change("new.bin", random);
        await listening.checkAll("in calm");
        listening.end();
      },
    });
  },
};
