import { existsSync, readdirSync } from "node:fs";

/** Peak memory of this process, in bytes. */
export interface Memory {
  readonly now: number;
  readonly peak: number;
}

/** Samples the resident set all the time; each call gives the peak since the one before. */
export function watchMemory(): () => Memory {
  let peak = 0;
  const sample = (): number => {
    const now = process.memoryUsage.rss();
    peak = Math.max(peak, now);
    return now;
  };
  setInterval(sample, 10).unref();
  return () => {
    const now = sample();
    const result = { now, peak };
    peak = now;
    return result;
  };
}

/** Collects what would otherwise end the process. */
export function watchFaults(): () => string[] {
  const faults: string[] = [];
  process.on("uncaughtException", (error, origin) => {
    faults.push(`${origin}: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  });
  return () => faults;
}

/** Open descriptors of this process; 0 where the system does not list them. */
export function countDescriptors(): number {
  return existsSync("/proc/self/fd") ? readdirSync("/proc/self/fd").length : 0;
}
