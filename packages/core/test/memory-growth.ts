import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes of the heap and of array buffers that are in use, after the collector ran. */
async function bytesInUse(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  // buffers are given back behind the collector's back
  for (let round = 0; round < 3; round += 1) {
    collect();
    await turn();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/**
 * Bytes that some work leaves in memory when it is done. A fifth of it runs before, for code that
 * loads and is compiled with it.
 */
export async function memoryGrowth(
  work: (count: number) => Promise<void>,
  count: number,
): Promise<number> {
  await work(Math.ceil(count / 5));
  const before = await bytesInUse();
  await work(count);
  return (await bytesInUse()) - before;
}
