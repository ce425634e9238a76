import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { MiB } from "./bench.ts";
import { idleMs } from "./program.ts";

// the kernel reports process times in ticks of 1/100 s on every Linux that Node supports
const ticksPerSecond = 100;

/** Fields of /proc/PID/stat after the command name, which may itself hold spaces and brackets. */
function statFields(pid: number): readonly string[] {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** Seconds of processor time, user and system, that a process has used so far. */
export function cpuSeconds(pid: number): number {
  const fields = statFields(pid);
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

function statusBytes(pid: number, name: string): number {
  const status = readFileSync(`/proc/${pid}/status`, "latin1");
  const found = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status);
  return Number(found?.[1] ?? 0) * 1024;
}

/** Bytes of memory that a process has resident now. */
export function rssBytes(pid: number): number {
  return statusBytes(pid, "VmRSS");
}

/** Most bytes that a process had resident since its start or the last {@link resetPeakRss}. */
export function peakRssBytes(pid: number): number {
  return statusBytes(pid, "VmHWM");
}

/** Starts a new peak from what is resident now (proc(5), clear_refs). */
export function resetPeakRss(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** Bytes that went through the reads and writes of a process so far: files, pipes and sockets (proc(5), io). */
export function movedBytes(pid: number): number {
  const io = readFileSync(`/proc/${pid}/io`, "latin1");
  const sum = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, "m").exec(io)?.[1]);
  return sum("rchar") + sum("wchar");
}

/** The processes that `pid` started and that still run. */
export function childrenOf(pid: number): readonly number[] {
  const all = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return all.filter((candidate) => {
    try {
      return Number(statFields(candidate)[1]) === pid;
    } catch {
      return false; // it ended between the listing and the look
    }
  });
}

/** Something whose memory can be read. */
export interface Resident {
  rssBytes(): number;
}

/** Memory over time. */
export interface MemoryTrace {
  /** The least while nothing was done: before, what loading left behind is still being collected. */
  readonly idleMiB: number;
  readonly peakMiB: number;
  /** Seconds since the start of the watch, and MiB. */
  readonly points: readonly (readonly [seconds: number, mib: number])[];
}

/** Samples the memory of `resident` every `everyMs` until the returned function is called. */
export function watchMemory(resident: Resident, everyMs = 25): () => MemoryTrace {
  const startedAt = performance.now();
  const points: [number, number][] = [];
  const look = (): void => {
    try {
      points.push([(performance.now() - startedAt) / 1000, resident.rssBytes() / MiB]);
    } catch {
      // the process has ended: what was seen so far is the trace
    }
  };
  look();
  const timer = setInterval(look, everyMs);
  return () => {
    clearInterval(timer);
    look();
    const idle = points.filter(([seconds]) => seconds * 1000 < idleMs);
    const working = points.slice(idle.length - 1);
    const mib = (some: typeof points): number[] => some.map(([, value]) => value);
    return { idleMiB: Math.min(...mib(idle)), peakMiB: Math.max(...mib(working)), points };
  };
}
