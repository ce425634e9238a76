import type { Profile } from "../run/profile.ts";
import { drawSkews, usualFaults } from "../system/mixes.ts";
import { Scene } from "../system/scene.ts";
import { quotaBytes, UploadTrials } from "../system/upload-trials.ts";

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
    const scene = new Scene(run, {
      faults: { ...usualFaults, "upload cut": 0.7 },
      storage: "inbox",
      cluster: (own) => ({
        servers: 2,
        redis: "durable",
        skewsMs: drawSkews(own, 2),
        inboxSteps: own.pick(["bytes", "blocks", "none"]),
        uploads: { limits: { fileBytes: { perPrincipal: quotaBytes } } },
      }),
    });
    const { world, random, cluster, clients, workload } = scene;
    const trials = new UploadTrials(run, cluster);
    for (let count = 1; count <= 4; count++) {
      const machine = random.pick(clients);
      const name = `${machine.name} uploads ${count}`;
      workload.begin(name, random.next() * 5_000, () =>
        trials.upload(name, machine, world.random(name)),
      );
    }
    const withinMs = 10_000;
    scene.planServerCrashes({ times: [0, 4], withinMs });
    scene.planClientCrashes({ times: [0, 4], withinMs });
    scene.plan("storage is full", { times: [0, 2], withinMs }, (own) => {
      cluster.inbox.isFull = true;
      world.after(own.next() * 3_000, () => (cluster.inbox.isFull = false));
    });
    return scene.phases({
      async calm() {
        await world.sleep(60_000);
        await trials.checkFiles();
        // slots end, and sweeps remove what nobody confirmed
        await world.sleep(1_800_000);
        await trials.checkFiles();
        await trials.checkLeftovers();
      },
    });
  },
};
