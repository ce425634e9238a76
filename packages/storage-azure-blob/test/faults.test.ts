import type { ContainerClient } from "@azure/storage-blob";
import { protect, type StorageBackend } from "@sluice/storage";
import { protectIn } from "@sluice/storage/internal";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { describe, expect, test } from "vitest";
import { failOneInAHundred, writeMany } from "../../storage/test/failing-calls.ts";
import { clientFor, sharedAzurite, startMs } from "./azurite.ts";
import { type Fault, startFaultProxy } from "./fault-proxy.ts";

const blockBytes = 8 * 1024 * 1024;

const faults: Record<string, Fault> = {
  throttled: { kind: "refuse", status: 503, code: "ServerBusy", headers: { "retry-after": "0" } },
  failed: { kind: "refuse", status: 500, code: "InternalError" },
  lost: { kind: "lost" },
};

/** A backend of a new container behind a proxy that lets requests fail. */
async function startFailing(onRequest: (target: string) => Fault | undefined) {
  const container: ContainerClient = await (await sharedAzurite()).createContainer();
  const proxy = await startFaultProxy(container, onRequest);
  const url = container.url.replace(new URL(container.url).origin, proxy.url);
  const backend: StorageBackend = createAzureBlobBackend({
    client: clientFor(url),
    writable: true,
  });
  return {
    container,
    backend,
    async [Symbol.asyncDispose]() {
      await backend.close?.();
      await proxy[Symbol.asyncDispose]();
      await container.delete();
    },
  };
}

test(
  "none of 1,000 writes fails through a store that fails 1 % of its calls",
  { tags: "slow", timeout: 300_000 },
  async () => {
    const chance = failOneInAHundred();
    await using failing = await startFailing(() => {
      const fault = chance.next();
      return fault && faults[fault];
    });
    expect(await writeMany(failing.backend, 1000, blockBytes)).toEqual([]);
    expect(chance.count()).toBeGreaterThan(10);
  },
);

describe("one transient fault ends no write of several blocks", () => {
  const cases = (["=block&", "=blocklist"] as const).flatMap((step) =>
    Object.entries(faults).map(([way, fault]) => [step, way, fault] as const),
  );
  test.each(cases)(
    "comp%s, %s",
    async (step, _way, fault) => {
      let isDue = false;
      await using failing = await startFailing((target) => {
        if (!isDue || !target.startsWith("PUT") || !`${target}&`.includes(`comp${step}`))
          return undefined;
        isDue = false;
        return fault;
      });
      const patient = protectIn(failing.backend, { random: () => 0 });
      for (const options of [{}, { ifAbsent: true }]) {
        isDue = true;
        const key = `${options.ifAbsent}.bin`;
        const writer = await patient.write!(key, options);
        await writer.write(new Uint8Array(blockBytes + 1));
        const { etag } = await writer.commit();
        expect(isDue).toBe(false);
        const found = await failing.backend.describe(key);
        expect(found).toMatchObject({ size: blockBytes + 1, etag });
      }
    },
    startMs,
  );

  test("negative control: a blob of another writer between two tries is not taken for this one's", async () => {
    let before: (() => Promise<unknown>) | undefined;
    await using failing = await startFailing((target) => {
      if (!before || !target.startsWith("PUT")) return undefined;
      void before();
      before = undefined;
      return faults["failed"];
    });
    const patient = protect(failing.backend);
    const writer = await patient.write!("a", { ifAbsent: true });
    await writer.write(Buffer.from("same"));
    before = () => failing.container.getBlockBlobClient("a").upload("same", 4);
    await expect(writer.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  });
});
