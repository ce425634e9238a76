import type { Profile } from "../run/profile.ts";
import { diskFaults, usualFaults } from "../system/mixes.ts";
import { Saves } from "../system/saves.ts";
import { Scene } from "../system/scene.ts";
import { smallThresholds } from "../system/thresholds.ts";
import { Versions } from "../system/versions.ts";

const sizes = [5_000, 30_000, 70_000, 200_000] as const;

/** Saves whose clients are killed and lose their power, and whose servers are killed. */
export const savesCrashes: Profile = {
  name: "saves-crashes",
  summary: "saves that are resumed after kills and power losses of clients, and kills of servers",
  edits: smallThresholds,
  mutants: [
    {
      name: "a file gets its name before its bytes are durable",
      runs: 60,
      edits: [
        {
          file: "client/src/save/part-file.ts",
          from: "const synced = syncGapless(() => handle.sync());",
          to: "const synced = Promise.resolve();",
        },
      ],
    },
    {
      name: "the name of a saved file is not made durable",
      runs: 60,
      edits: [
        {
          file: "client/src/save/save-target.ts",
          from: "  await handle?.sync().catch(() => {});\n",
          to: "",
        },
      ],
    },
  ],
  begin(run) {
    const scene = new Scene(run, {
      faults: { ...usualFaults, ...diskFaults },
      cluster: () => ({ servers: 2 }),
    });
    const { world, random, cluster, disk, clients, workload } = scene;
    disk.slownessMs = random.pick([0.4, 0.4, 40]);
    const versions = new Versions(world, cluster.files.objects);
    const keys = ["a.bin", "b.bin"];
    for (const key of keys) versions.put(key, random.pick(sizes), random);
    const saves = new Saves(run, cluster.network, disk, versions);
    const wanted = [1, 2, 3, 4].map(() => saves.want(random.pick(keys)));
    // some of them at the same time, for both clients
    for (let count = 1; count <= 8; count++) {
      const machine = random.pick(clients);
      const file = random.pick(wanted);
      const name = `${machine.name} saves ${file.path} (${count})`;
      const own = world.random(name);
      workload.begin(name, random.next() * 5_000, async () => {
        if (file.isSaved) return;
        const result = await saves.save(name, machine, file, own);
        if (result === "killed") await saves.save(name, machine, file, own);
      });
    }
    const withinMs = 6_000;
    scene.planPowerLosses({ times: [1, 6], withinMs }, () => saves.checkFiles());
    scene.planServerCrashes({ times: [0, 3], withinMs });
    scene.plan("changes", { times: [0, 3], withinMs }, (own) =>
      versions.put(own.pick(keys), own.pick(sizes), own),
    );
    return scene.phases({
      async calm() {
        saves.checkFiles();
        await saves.finish(clients[0]!, random);
      },
      idle: () => saves.checkFiles(),
    });
  },
};
