import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import {
  withCache,
  createMemoryBackend,
  protect,
  type StorageBackend,
  type WritableBackend,
  wrapBackend,
} from "@sluice/storage";
import {
  withThrottle,
  withValidation,
  withResumedReads,
  withRetry,
  withDigestCheck,
  protectIn,
} from "@sluice/storage/internal";
import { createBody } from "@sluice/storage/plugin";
import { createManualClock, settle } from "./manual-clock.ts";
import { createReferenceService } from "./reference-service.ts";
import { failure, readText } from "./scripted-backend.ts";

const oneMiB = 1024 * 1024;
const wrappers: Readonly<Record<string, (backend: StorageBackend) => StorageBackend>> = {
  withValidation,
  withThrottle,
  withRetry,
  withResumedReads,
  withDigestCheck,
  protect,
  withCache,
};

/** A backend as a class, with its methods on the prototype and nothing but the duty. */
class Duty implements StorageBackend {
  readonly name = "duty";
  readonly #store = createMemoryBackend({ a: "content" });
  describe(
    ...given: Parameters<StorageBackend["describe"]>
  ): ReturnType<StorageBackend["describe"]> {
    return this.#store.describe(...given);
  }
  open(...given: Parameters<StorageBackend["open"]>): ReturnType<StorageBackend["open"]> {
    return this.#store.open(...given);
  }
  list(...given: Parameters<StorageBackend["list"]>): ReturnType<StorageBackend["list"]> {
    return this.#store.list(...given);
  }
}

describe("every wrapper", () => {
  for (const [name, wrapper] of Object.entries(wrappers)) {
    test(`${name} keeps absent operations absent and works over a class`, async () => {
      const wrapped = wrapper(new Duty());
      expect(Object.keys(wrapped).toSorted()).toEqual(["describe", "list", "name", "open"]);
      expect(wrapped.name).toBe("duty");
      expect((await wrapped.describe("a")).size).toBe(7);
      expect(await readText((await wrapped.open("a")).body)).toBe("content");
      expect((await wrapped.list()).objects.length).toBe(1);
    });

    test(`${name} keeps present operations present`, () => {
      const operations = [
        "close",
        "describe",
        "list",
        "name",
        "open",
        "presign",
        "presignOrigins",
        "remove",
        "watch",
        "write",
        "writeInSteps",
      ];
      const { backend } = createReferenceService();
      expect(Object.keys(wrapper(backend)).toSorted()).toEqual(operations);
    });

    test(`${name} reads nothing ahead and passes a cancel on`, async () => {
      const { fixture, state } = createReferenceService();
      await fixture.putLarge?.("large", 1024 * oneMiB, new Uint8Array(1));
      const { body } = await wrapper(fixture.backend).open("large");
      await settle();
      expect(state.bytes).toBe(0);
      const reader = body.getReader();
      await reader.read();
      await settle();
      expect(state.bytes).toBeLessThanOrEqual(2 * 256 * 1024);
      await reader.cancel();
      expect(state.handles).toBe(0);
    });

    test(`${name} ends a stalled body when it is aborted, and lets go of it`, async () => {
      const { fixture, state } = createReferenceService();
      await fixture.put("a", new Uint8Array(600_000));
      fixture.faults?.stall?.(1);
      const caller = new AbortController();
      const { body } = await wrapper(fixture.backend).open("a", { signal: caller.signal });
      const reading = readText(body);
      await settle();
      caller.abort("the reason");
      await expect(reading).rejects.toBe("the reason");
      expect(state.handles).toBe(0);
    });
  }
});

describe("protect", () => {
  const mebibytes = process.env["SLUICE_DEEP"] ? 1024 : 32;

  test(
    `${mebibytes} MiB pass through with no more than a few chunks held`,
    { tags: "slow" },
    async () => {
      const size = mebibytes * oneMiB;
      const { fixture } = createReferenceService();
      await fixture.putLarge?.("large", size, new Uint8Array([7]));
      const { body } = await protect(fixture.backend).open("large");
      let bytes = 0;
      let last = 0;
      let held = 0;
      const collectGarbage = exposeGarbageCollector();
      collectGarbage();
      const before = process.memoryUsage().arrayBuffers;
      for await (const chunk of body) {
        bytes += chunk.byteLength;
        last = chunk.at(-1) ?? 0;
        // the collector gives buffers back in the background: the bound leaves it a round or two
        if (bytes % (size / 4) === 0) {
          collectGarbage();
          held = Math.max(held, process.memoryUsage().arrayBuffers - before);
        }
      }
      expect([bytes, last]).toEqual([size, 7]);
      expect(held).toBeLessThan(size / 2);
    },
  );

  test("a service that throttles, fails and disconnects still delivers every byte once", async () => {
    const { fixture, state } = createReferenceService();
    const content = Uint8Array.from({ length: 2_000_000 }, (_, n) => (n * 31) % 251);
    await fixture.put("a", content);
    const clock = createManualClock();
    const backend = protectIn(fixture.backend, { clock, random: () => 0 });
    state.throttle = "2";
    const opening = backend.open("a");
    await clock.advance(1999);
    expect(state.requests).toBe(1);
    state.body = { kind: "reset", at: 600_000 };
    await clock.advance(1);
    const { body } = await opening;
    const reader = body.getReader();
    const chunks = [(await reader.read()).value ?? new Uint8Array()];
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      chunks.push(read.value);
      if (chunks.length === 2) state.body = { kind: "truncate", at: 600_000 };
    }
    expect(Buffer.compare(Buffer.concat(chunks), content)).toBe(0);
    expect(state.handles).toBe(0);
  });

  test("a digest is compared across resumes", async () => {
    const store = createMemoryBackend({ a: "0123456789" });
    const altering = wrapBackend(store, {
      open: (open) => async (key, options) => {
        const opened = await open(key, options);
        const bytes = new Uint8Array(await new Response(opened.body).arrayBuffer());
        let step = 0;
        const body = createBody({
          async next() {
            step++;
            if (opened.range) return step === 1 ? bytes.fill(0x78) : undefined;
            if (step === 2) throw failure("interrupted");
            return bytes.slice(0, 4);
          },
        });
        return { ...opened, body };
      },
    });
    const { body } = await protect(altering).open("a");
    await expect(readText(body)).rejects.toMatchObject({ code: "corrupt" });
  });

  test("its settings reach every wrapper", async () => {
    const clock = createManualClock();
    const never = wrapBackend(createMemoryBackend(), {
      describe: () => () => new Promise(() => {}),
    });
    const describing = protectIn(never, { clock, idleMs: 10, maxAttempts: 1 }).describe("a");
    describing.catch(() => {});
    await clock.advance(10);
    await expect(describing).rejects.toMatchObject({ code: "timeout" });
  });
});

/** Node's own collector, even when it was not started for it. */
function exposeGarbageCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

test("a writable backend stays writable behind every public wrapper, also by its type", async () => {
  const backends: readonly WritableBackend[] = [
    protect(createMemoryBackend()),
    withCache(createMemoryBackend()),
    wrapBackend(createMemoryBackend(), {}),
  ];
  for (const backend of backends) {
    await using writer = await backend.write("a", { size: 0 });
    await writer.commit();
    await backend.remove("a");
    await expect(backend.describe("a")).rejects.toMatchObject({ code: "not_found" });
  }
});
