import type { Profile } from "../run/profile.ts";
import { Cluster } from "../system/cluster.ts";
import { crashServer, plan } from "../system/crashes.ts";
import { drawSlowness, mixOf, usualFaults } from "../system/mixes.ts";
import { quotaBytes, UploadTrials } from "../system/upload-trials.ts";
import { Workload } from "../system/workload.ts";

/** Uploads in steps to several servers, which are killed, over storage that fails and is full. */
export const uploads: Profile = {
  name: "uploads",
  summary:
    "uploads in steps, resumed after kills of clients and servers and cut requests, over storage that runs full",
  edits: [
    {
      file: "client/src/upload/send/send-files.ts",
      from: "const shortBytes: number = 2 ** 20;",
      to: "const shortBytes: number = 2_000;",
    },
    {
      file: "uploads/src/resumable/file-in-parts.ts",
      from: "const partBytes = 8 * 1024 * 1024;",
      to: "const partBytes = 10_000;",
    },
    {
      file: "uploads/src/resumable/file-in-steps.ts",
      from: "const keepEveryBytes = 256 * 1024 * 1024;",
      to: "const keepEveryBytes = 10_000;",
    },
    {
      file: "uploads/src/resumable/file-in-steps.ts",
      from: "const keepEveryMs = 60_000;",
      to: "const keepEveryMs = 500;",
    },
  ],
  mutants: [
    {
      name: "the rest of a step that fills no block is not written in the next one",
      runs: 100,
      edits: [
        {
          file: "uploads/src/resumable/file-in-steps.ts",
          from: "      await writer.write(first);\n",
          to: "",
        },
      ],
    },
    {
      name: "the bytes of a file are removed while its record may exist",
      runs: 60,
      edits: [
        {
          file: "uploads/src/store/slot-files.ts",
          from: "    places.push(recordPlace);\n",
          to: "",
        },
      ],
    },
    {
      name: "a second confirmation is not refused",
      runs: 20,
      edits: [
        {
          file: "uploads/src/confirm/confirm.ts",
          from: "      throw confirmedBefore();\n    // removes",
          to: "      void confirmedBefore();\n    // removes",
        },
      ],
    },
    {
      name: "a sweep leaves what a confirmed upload has beside its files",
      runs: 30,
      edits: [
        {
          file: "uploads/src/confirm/sweep.ts",
          from: "      else if (isOver(state))",
          to: '      else if (isOver(state) && state.phase !== "confirmed")',
        },
      ],
    },
    {
      name: "an overtaken request is refused as malformed",
      runs: 60,
      edits: [
        {
          file: "uploads/src/routes/answers.ts",
          from: '[503, "Service Unavailable", "interrupted"]',
          to: '[400, "Bad Request", "interrupted"]',
        },
      ],
    },
    {
      name: "a step whose end failed is ended once more",
      runs: 60,
      edits: [
        {
          file: "uploads/src/resumable/file-in-steps.ts",
          from: "      writer = undefined;\n      await idle?.suspend();\n",
          to: "      await idle?.suspend();\n      writer = undefined;\n",
        },
      ],
    },
  ],
  begin(run) {
    const { world } = run;
    const random = world.random("plan");
    run.faults.use(mixOf(random, { ...usualFaults, "upload cut": 0.7 }));
    const skewMs = (): number => random.int(-2_500, 2_500);
    const cluster = new Cluster(run, {
      servers: 2,
      redis: "durable",
      skewsMs: [skewMs(), skewMs()],
      inboxSteps: random.pick(["bytes", "blocks", "none"]),
      uploads: { limits: { fileBytes: { perPrincipal: quotaBytes } } },
    });
    const { machines } = cluster.createClients(2);
    drawSlowness(random, cluster.network, cluster.inbox);
    const trials = new UploadTrials(run, cluster);
    const workload = new Workload(run);
    for (let count = 1; count <= 4; count++) {
      const machine = random.pick(machines);
      const name = `${machine.name} uploads ${count}`;
      workload.begin(name, random.next() * 5_000, () =>
        trials.upload(name, machine, world.random(name)),
      );
    }
    const within = { withinMs: 10_000, random };
    plan(run, "server crashes", { ...within, times: random.int(0, 4) }, (own) =>
      crashServer(run, cluster, own),
    );
    plan(run, "client crashes", { ...within, times: random.int(0, 4) }, (own) => {
      const machine = own.pick(machines);
      world.tell(`${machine.name} is killed`);
      machine.boot();
    });
    plan(run, "storage is full", { ...within, times: random.int(0, 2) }, (own) => {
      cluster.inbox.isFull = true;
      world.after(own.next() * 3_000, () => (cluster.inbox.isFull = false));
    });
    return {
      isOver: () => workload.isOver(),
      async calm() {
        cluster.heal();
        await world.sleep(60_000);
        await trials.checkFiles();
        // slots end, and sweeps remove what nobody confirmed
        await world.sleep(1_800_000);
        await trials.checkFiles();
        await trials.checkLeftovers();
      },
      idle: () => cluster.checkIdle(machines),
    };
  },
};
