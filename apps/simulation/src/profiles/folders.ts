import type { Profile } from "../run/profile.ts";
import { FolderTrials } from "../system/folder-trials.ts";
import { diskFaults } from "../system/mixes.ts";
import { Scene } from "../system/scene.ts";

/** Objects of a folder on a disk that fails, runs full and loses its power, served by two processes of one host. */
export const folders: Profile = {
  name: "folders",
  summary:
    "reads, writes and lists of a folder by two processes, over a disk that fails, runs full and loses its power",
  edits: [
    {
      file: "storage-fs/src/read/opened-object.ts",
      from: "const chunkBytes = 256 * 1024;",
      to: "const chunkBytes = 7_000;",
    },
    {
      file: "storage-fs/src/read/small-files.ts",
      from: "const maxFileBytes = 64 * 1024;",
      to: "const maxFileBytes = 5_000;",
    },
    {
      file: "storage-fs/src/write/gathered-writes.ts",
      from: "const gatherBytes = 1024 * 1024;",
      to: "const gatherBytes = 20_000;",
    },
    {
      file: "storage-fs/src/write/gathered-writes.ts",
      from: "const minGatherBytes = 64 * 1024;",
      to: "const minGatherBytes = 4_000;",
    },
    {
      file: "storage-fs/src/write/gathered-writes.ts",
      from: "const stepBytes = 32 * 1024 * 1024;",
      to: "const stepBytes = 15_000;",
    },
    {
      file: "storage-fs/src/write/steps-file.ts",
      from: "const copiedBytes = 1024 * 1024;",
      to: "const copiedBytes = 9_000;",
    },
    {
      file: "storage-fs/src/write/abandoned-writes.ts",
      from: "const stepsMs = 7 * 24 * 3_600_000;",
      to: "const stepsMs = 3_600_000;",
    },
  ],
  mutants: [
    {
      name: "a file gets its name before its bytes are durable",
      runs: 60,
      edits: [
        { file: "storage-fs/src/write/writer.ts", from: "      await file.sync();\n", to: "" },
      ],
    },
    {
      name: "the name of a file is not made durable",
      runs: 60,
      edits: [
        { file: "storage-fs/src/write/writer.ts", from: "      await directory.sync();\n", to: "" },
      ],
    },
    {
      name: "a removal is not made durable",
      runs: 100,
      edits: [
        {
          file: "storage-fs/src/write/remove-file.ts",
          from: "    await directory.sync();\n",
          to: "",
        },
      ],
    },
    {
      name: "a file is not looked at again after its last byte",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/read/opened-object.ts",
          from: "        if (position === end) await file.verify();\n",
          to: "",
        },
      ],
    },
    {
      name: "bytes that a step keeps are not made durable",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/write/step-writer.ts",
          from: "      await ownSteps?.file.datasync();\n",
          to: "",
        },
        {
          file: "storage-fs/src/write/steps-file.ts",
          from: "          await (owned?.file ?? file).datasync();\n",
          to: "",
        },
      ],
    },
    {
      name: "the rest of a short write is left out",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/write/gathered-writes.ts",
          from: "if (takenBytes < chunk.byteLength) next.push",
          to: "if (takenBytes === 0) next.push",
        },
      ],
    },
    {
      name: "a small file in memory is not compared with the disk",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/read/small-files.ts",
          from: "if (!isSame(file.stats, look(pathOf(root, key)))) {",
          to: "if (!look(pathOf(root, key))) {",
        },
      ],
    },
    {
      name: "a walk that goes on elsewhere leaves out the folder where it was",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/read/walk.ts",
          from: "        if (name === level.resume.names.at(-1)) ({ inner } = level.resume);\n",
          to: "",
        },
      ],
    },
    {
      name: "a folder that was listed stays open",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/read/open-directory.ts",
          from: "await Promise.all([entries.close(), closeAsync(fd)]);",
          to: "await entries.close();",
        },
      ],
    },
    {
      name: "objects in steps that were left are not swept",
      runs: 60,
      edits: [
        {
          file: "storage-fs/src/write/abandoned-writes.ts",
          from: "const isSteps = isStepsName(entry.name);",
          to: "const isSteps = false;",
        },
      ],
    },
    {
      name: "a writer that is given up is not released",
      runs: 60,
      edits: [
        {
          file: "storage/src/plugin/writer.ts",
          from: "    controller.abort(reason);\n    await release().catch(() => {});\n",
          to: "    controller.abort(reason);\n",
        },
      ],
    },
    {
      name: "a clean-up that fails takes back a step that was kept",
      runs: 100,
      edits: [
        {
          file: "storage/src/plugin/step-writer.ts",
          from: "    await release().catch(() => {});\n    return result;",
          to: "    await release();\n    return result;",
        },
      ],
    },
    {
      name: "a body that is cancelled is not released",
      runs: 60,
      edits: [{ file: "storage/src/plugin/body.ts", from: "      cancel: release,\n", to: "" }],
    },
  ],
  begin(run) {
    const scene = new Scene(run, {
      faults: { ...diskFaults, "short read": 0.3, "disk fails": 0.03 },
      cluster: () => ({ servers: 0 }),
    });
    const { world, random, disk, clients, workload } = scene;
    disk.slownessMs = random.pick([0.4, 0.4, 40]);
    disk.isLocal = random.chance(0.6);
    disk.hasProc = random.chance(0.7);
    const trials = new FolderTrials(run, disk, ["a.bin", "d/b.bin", "d/e/c.bin", "f/g.bin"]);
    const foreign = ["x.bin", "y.bin"];
    const withinMs = 8_000;
    const begin = (what: string, count: number, work: (name: string) => Promise<void>): void => {
      for (let at = 1; at <= count; at++) {
        const name = `${what} ${at}`;
        workload.begin(name, random.next() * withinMs, () => work(name));
      }
    };
    const { keys } = trials;
    begin("p writes", 14, (name) => {
      const own = world.random(name);
      return trials.write(name, own.pick(clients), own.pick(keys), own);
    });
    begin("p steps", 3, (name) => trials.writeInSteps(name, clients, world.random(name)));
    begin("p removes", 3, (name) => {
      const own = world.random(name);
      return trials.remove(name, own.pick(clients), own.pick(keys));
    });
    begin("p reads", 20, (name) => {
      const own = world.random(name);
      return trials.readSome(name, own.pick(clients), own.pick([...keys, ...foreign]), own);
    });
    begin("p lists", 4, (name) => {
      const own = world.random(name);
      return trials.list(name, clients, own);
    });
    scene.plan("other program", { times: [0, 10], withinMs }, (own) =>
      trials.foreign.change(own.pick(foreign), own),
    );
    scene.plan("disk full", { times: [0, 2], withinMs }, (own) => {
      disk.freeBytes = own.int(0, 50_000);
      world.after(own.next() * 3_000, () => (disk.freeBytes = Infinity));
    });
    scene.planPowerLosses({ times: [0, 5], withinMs }, () => trials.foreign.powerLost());
    return scene.phases({
      async calm() {
        disk.freeBytes = Infinity;
        await trials.finish(clients, random);
        await world.sleep(4_000_000);
        await trials.sweep(clients[0]!);
      },
      idle: () => trials.checkIdle(clients),
    });
  },
};
