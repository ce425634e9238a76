import type { Profile } from "../run/profile.ts";
import { Cluster } from "../system/cluster.ts";
import { crashClient, crashServer, plan } from "../system/crashes.ts";
import { diskFaults, drawSlowness, mixOf, usualFaults } from "../system/mixes.ts";
import { Saves } from "../system/saves.ts";
import { smallThresholds } from "../system/thresholds.ts";
import { Versions } from "../system/versions.ts";
import { Workload } from "../system/workload.ts";

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
    const { world } = run;
    const random = world.random("plan");
    run.faults.use(mixOf(random, { ...usualFaults, ...diskFaults }));
    const cluster = new Cluster(run, { servers: 2 });
    const { disk, machines } = cluster.createClients(2);
    drawSlowness(random, cluster.network, cluster.files);
    disk.slownessMs = random.pick([0.4, 0.4, 40]);
    const versions = new Versions(world, cluster.files.objects);
    const keys = ["a.bin", "b.bin"];
    for (const key of keys) versions.put(key, random.pick(sizes), random);
    const saves = new Saves(run, cluster.network, disk, versions);
    const workload = new Workload(run);
    const wanted = [1, 2, 3, 4].map(() => saves.want(random.pick(keys)));
    // some of them at the same time, for both clients
    for (let count = 1; count <= 8; count++) {
      const machine = random.pick(machines);
      const file = random.pick(wanted);
      const name = `${machine.name} saves ${file.path} (${count})`;
      const own = world.random(name);
      workload.begin(name, random.next() * 5_000, async () => {
        if (file.isSaved) return;
        const result = await saves.save(name, machine, file, own);
        if (result === "killed") await saves.save(name, machine, file, own);
      });
    }
    const crashes = { times: random.int(1, 6), withinMs: 6_000, random };
    plan(run, "client crashes", crashes, (own) => {
      crashClient(run, machines, disk, own);
      saves.checkFiles();
    });
    plan(run, "server crashes", { ...crashes, times: random.int(0, 3) }, (own) =>
      crashServer(run, cluster, own),
    );
    plan(run, "changes", { ...crashes, times: random.int(0, 3) }, (own) =>
      versions.put(own.pick(keys), own.pick(sizes), own),
    );
    return {
      isOver: () => workload.isOver(),
      async calm() {
        cluster.heal();
        saves.checkFiles();
        await saves.finish(machines[0]!, random);
      },
      idle() {
        saves.checkFiles();
        cluster.checkIdle(machines);
      },
    };
  },
};
