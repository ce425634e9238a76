import { setTimeout as wait } from "node:timers/promises";
import { type StorageBackend } from "@sluice/storage";
import { protectIn } from "@sluice/storage/internal";

/** Faults of one call of a service. */
export type CallFault = "throttled" | "failed" | "lost";

const kinds: readonly CallFault[] = ["throttled", "failed", "lost"];

/** Lets one call in a hundred fail, in turn in each way; the same ones in every run. */
export function failOneInAHundred(): { next(): CallFault | undefined; count(): number } {
  let state = 1;
  let faults = 0;
  return {
    next() {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state % 9973 < 100 ? kinds[faults++ % kinds.length] : undefined;
    },
    count: () => faults,
  };
}

/**
 * Writes this many objects, eight at a time, each 25th in several parts and each third under a
 * condition, and gives the failures. Written objects are described again.
 */
export async function writeMany(
  backend: StorageBackend,
  count: number,
  partBytes: number,
): Promise<unknown[]> {
  const patient = protectIn(backend, { random: () => 0 });
  const failures: unknown[] = [];
  let begun = 0;
  const work = async (): Promise<void> => {
    while (begun < count) {
      const number = begun++;
      const size = number % 25 === 0 ? partBytes + 1 : 1000;
      try {
        const writer = await patient.write!(`${number}.bin`, { size, ifAbsent: number % 3 === 0 });
        await writer.write(new Uint8Array(size));
        const made = await writer.commit();
        const found = await patient.describe(`${number}.bin`);
        if (found.size !== size || found.etag !== made.etag) throw new Error("another object");
      } catch (error) {
        failures.push(error);
      }
      await wait(0);
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return failures;
}
