import type { Profile } from "../run/profile.ts";
import { LeaseTrials, maxStreams, responseBytes, spareBytes } from "../system/lease-trials.ts";
import { drawSkews, redisFaults, usualFaults } from "../system/mixes.ts";
import { Scene } from "../system/scene.ts";
import { UploadLimits, uploadLimits } from "../system/upload-limits.ts";

/** Limits of streams, leases, responses and uploads, in one process or in two that share a Redis and are killed. */
export const leases: Profile = {
  name: "leases",
  summary:
    "leases, permits of streams, bytes of responses and quotas of uploads, in memory or over a Redis that fails",
  edits: [
    {
      file: "state/src/contract/grant.ts",
      from: "return 4 * size + 1_048_576;",
      to: `return 4 * size + ${spareBytes};`,
    },
  ],
  mutants: [
    {
      name: "bytes of further responses are not counted in a lease",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "  if use ~= 'window' then redis.call('HINCRBY', KEYS[1], 'used', charge) end\n",
          to: "",
        },
      ],
    },
    {
      name: "a response counts for nothing but its request in a lease",
      runs: 30,
      edits: [
        {
          file: "state/src/contract/grant.ts",
          from: "return Math.max(512, bytes);",
          to: "return 512;",
        },
      ],
    },
    {
      name: "a lease has all bytes of a response again when one was not sent",
      runs: 30,
      edits: [
        {
          file: "server/src/urls/redeem.ts",
          from: "if (unsent > 0) grants.refund(grant, unsent)",
          to: "if (unsent > 0) grants.refund(grant, charged)",
        },
      ],
    },
    {
      name: "a caller that is refused keeps a permit of the process",
      runs: 30,
      edits: [
        {
          file: "server/src/limits/stream-limiter.ts",
          from: "        leaveProcess();\n        throw",
          to: "        throw",
        },
      ],
    },
    {
      name: "a caller keeps its own permit",
      runs: 30,
      edits: [
        {
          file: "server/src/limits/stream-limiter.ts",
          from: "        leaveShare();\n",
          to: "",
        },
      ],
    },
    {
      name: "bytes of a response are not given back",
      runs: 30,
      edits: [
        {
          file: "server/src/limits/byte-account.ts",
          from: "          change(name, -leaseBytes);\n          leaseBytes = 0;",
          to: "          leaseBytes = 0;",
        },
      ],
    },
    {
      name: "a response that fails keeps its permit and its bytes",
      runs: 30,
      edits: [
        {
          file: "server/src/calls/answer-lease.ts",
          from: "    } catch (error) {\n      release();\n",
          to: "    } catch (error) {\n",
        },
      ],
    },
    {
      name: "one request more than allowed is let in",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/upload-scripts.ts",
          from: "redis.call('ZCARD', permits) >= most",
          to: "redis.call('ZCARD', permits) > most",
        },
      ],
    },
    {
      name: "the end of a request gives no permit back",
      runs: 30,
      edits: [
        {
          file: "uploads/src/limits/quota-tracker.ts",
          from: "      await store.leave(account, permit).catch(onError);\n",
          to: "",
        },
      ],
    },
    {
      name: "permits of a process that was killed stay",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/upload-scripts.ts",
          from: "  redis.call('ZREMRANGEBYSCORE', permits, '-inf', now)\n",
          to: "",
        },
      ],
    },
    {
      name: "bytes of a forgotten file stay in the sum of its owner",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/upload-scripts.ts",
          from: "  if bytes then redis.call('DECRBY', total, bytes) end\n",
          to: "",
        },
      ],
    },
    {
      name: "a file that is held is not counted",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/upload-scripts.ts",
          from: "count(file, ARGV[5])\nprolong()\nreturn 1\n`);\n\n/** Further: file, its bytes. */",
          to: "prolong()\nreturn 1\n`);\n\n/** Further: file, its bytes. */",
        },
      ],
    },
    {
      name: "a file that failed still counts",
      runs: 30,
      edits: [
        {
          file: "uploads/src/receive/raw-upload.ts",
          from: "    await quota.drop(owner, fileId);\n",
          to: "",
        },
      ],
    },
    {
      name: "a file is held after it was settled",
      runs: 30,
      edits: [
        {
          file: "uploads/src/limits/quota-tracker.ts",
          from: "    await this.#letGo(fileId);\n    await store.settle",
          to: "    await store.settle",
        },
      ],
    },
    {
      name: "a lease in memory has only its last response counted",
      runs: 30,
      edits: [
        {
          file: "state/src/contract/grant.ts",
          from: "const bytesUsed = record!.bytesUsed + charge;",
          to: "const bytesUsed = charge;",
        },
      ],
    },
    {
      name: "a file in memory is let in without those before it",
      runs: 30,
      edits: [
        {
          file: "state/src/memory/memory-upload-store.ts",
          from: "      for (const file of files.values()) total += file.bytes;\n",
          to: "",
        },
      ],
    },
  ],
  begin(run) {
    const isShared = run.world.random("stores").chance(0.7);
    const scene = new Scene(run, {
      faults: { ...usualFaults, ...(isShared && redisFaults), "upload cut": 0.3 },
      storage: "inbox",
      cluster: (own) => ({
        servers: isShared ? 2 : 1,
        ...(isShared && { redis: "durable" }),
        skewsMs: drawSkews(own, 2),
        sluice: {
          grant: { use: "lease", ttlMs: 300_000 },
          limits: { streams: maxStreams, responseBytes },
        },
        uploads: { limits: uploadLimits },
      }),
    });
    const { world, random, clients, workload } = scene;
    const downloads = new LeaseTrials(scene);
    const uploads = new UploadLimits(scene);
    const kinds = {
      lease: downloads.useLease.bind(downloads),
      many: downloads.takeMany.bind(downloads),
      one: downloads.takeOne.bind(downloads),
      read: downloads.read.bind(downloads),
      files: uploads.send.bind(uploads),
    };
    for (const [kind, work] of Object.entries(kinds))
      for (let count = 1; count <= 4; count++) {
        const machine = random.pick(clients);
        const name = `${kind} ${count}`;
        workload.begin(`${machine.name} does ${name}`, random.next() * 20_000, () =>
          work(name, machine, world.random(name)),
        );
      }
    if (isShared) scene.planServerCrashes({ times: [0, 2], withinMs: 20_000 });
    return scene.phases({
      async calm() {
        // permits of processes that were killed end
        await world.sleep(30_000);
        await uploads.checkPermits();
        await downloads.checkFree();
        // slots end, and a sweep removes what nobody confirmed
        await world.sleep(1_800_000);
        await uploads.checkFree();
      },
    });
  },
};
