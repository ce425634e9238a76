import { setTimeout as sleep } from "node:timers/promises";
import { idleMs } from "./memory-watch.ts";

/** What a client under test prints about its work, as one line of JSON. */
export interface Work {
  readonly bytes: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/**
 * For the programs that are clients, after a small transfer has loaded and warmed everything: says `{"idle":true}`, waits until the observer has looked at
 * the memory, works, and prints a {@link Work}. The peak of the memory is taken from outside.
 */
export async function reportWork(work: () => Promise<number>): Promise<void> {
  console.log(JSON.stringify({ idle: true }));
  await sleep(idleMs);
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const bytes = await work();
  const seconds = (performance.now() - startedAt) / 1000;
  const cpu = process.cpuUsage(cpuBefore);
  const report: Work = { bytes, seconds, cpuSeconds: (cpu.user + cpu.system) / 1e6 };
  console.log(JSON.stringify(report));
}
