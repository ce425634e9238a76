import type { Profile } from "../run/profile.ts";
import { diskFaults, usualFaults } from "../system/mixes.ts";
import { Saves } from "../system/saves.ts";
import { Scene } from "../system/scene.ts";
import { smallThresholds } from "../system/thresholds.ts";
import { Versions } from "../system/versions.ts";

/** Sizes around the thresholds of `smallThresholds`. */
const sizes = [1, 100, 5_000, 30_000, 70_000, 200_000] as const;

/** Saves over connections that break, of objects that get other versions. */
export const savesVersions: Profile = {
  name: "saves-versions",
  summary: "saves of objects that get other versions, over connections that break",
  edits: smallThresholds,
  mutants: [
    {
      name: "a response of another version continues the bytes of this one",
      runs: 60,
      edits: [
        {
          file: "core/src/transfer/transfer.ts",
          from: "const sameVersion = etag !== undefined && event.etag === etag;",
          to: "const sameVersion = true;",
        },
        {
          file: "client/src/download/resumable-download.ts",
          from: "if (pinned && !isSameVersion(pinned, next)) throw changed(uri, fault);",
          to: "",
        },
      ],
    },
    {
      name: "a share at byte 0 takes any version",
      runs: 120,
      edits: [
        {
          file: "client/src/download/resumable-download.ts",
          from: "if (pinned && !isSameVersion(pinned, next)) throw changed(uri, fault);",
          to: "",
        },
      ],
    },
    {
      name: "a body that ends early counts as whole",
      runs: 40,
      edits: [
        {
          file: "core/src/transfer/transfer.ts",
          from: 'if (size !== undefined && receivedBytes < size) return interrupt(facts, { kind: "network" }, 0);',
          to: "",
        },
        {
          file: "client/src/save/save-opened.ts",
          from: "    ensureLength(facts.uri, answer.size, size);\n",
          to: "",
        },
      ],
    },
    {
      name: "a file gets its name before it is verified",
      runs: 60,
      edits: [
        {
          file: "client/src/save/save-opened.ts",
          from: "    ensureLength(facts.uri, answer.size, size);\n",
          to: "    const path = await publish(part);\n    ensureLength(facts.uri, answer.size, size);\n",
        },
        {
          file: "client/src/save/save-opened.ts",
          from: "const saved = { path: await publish(part), size",
          to: "const saved = { path, size",
        },
      ],
    },
    {
      name: "the digest of a whole file is not compared",
      runs: 60,
      edits: [
        {
          file: "client/src/save/save-opened.ts",
          from: "    ensureDigest(facts.uri, answer.sha256, sha256);\n",
          to: "",
        },
      ],
    },
    {
      name: "the permit of a stream is not given back when it breaks",
      runs: 60,
      edits: [
        {
          file: "server/src/limits/transfers.ts",
          from: "    release();\n",
          to: '    if (outcome !== "aborted") release();\n',
        },
      ],
    },
  ],
  begin(run) {
    const scene = new Scene(run, {
      faults: { ...usualFaults, ...diskFaults },
      cluster: () => ({ servers: 1 }),
    });
    const { world, random, cluster, disk, clients, workload } = scene;
    const versions = new Versions(world, cluster.files.objects);
    const keys = ["a.bin", "b.bin"];
    for (const key of keys) versions.put(key, random.pick(sizes), random);
    disk.slownessMs = random.pick([0.4, 0.4, 40]);
    const saves = new Saves(run, cluster.network, disk, versions);
    for (const machine of clients)
      for (let count = 1; count <= 4; count++) {
        const wanted = saves.want(random.pick(keys));
        const name = `${machine.name} saves ${wanted.path}`;
        const own = world.random(name);
        const again = random.chance(0.3) ? 2 : 1;
        workload.begin(name, random.next() * 4_000, async () => {
          for (let tries = 0; tries < again && !wanted.isSaved; tries++)
            await saves.save(name, machine, wanted, own);
        });
      }
    scene.plan("changes", { times: [0, 10], withinMs: 6_000 }, (own) =>
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
