import { createHash, randomBytes } from "node:crypto";
import { hostname } from "node:os";

/**
 * Name for a file that is being written. No other process has it, or can guess it to plant a file there: 80 bits are
 * random. The others say which process of which machine writes it. `kept` ones stay longer.
 */
export function randomPartName(ending: "part" | "kept" = "part"): string {
  const id = process.pid.toString(16).padStart(8, "0");
  return `.${hostTag()}${id}${randomBytes(10).toString("hex")}.${ending}`;
}

/** Where the process is that wrote a part of this name, `kept` or not. Undefined for any other name. */
export function writerOfPart(name: string): "running" | "ended" | "elsewhere" | undefined {
  const [, tagOfHost, pid] =
    /^\.([0-9a-f]{4})([0-9a-f]{8})[0-9a-f]{20}\.(?:part|kept)$/.exec(name) ?? [];
  if (pid === undefined) return undefined;
  if (tagOfHost !== hostTag()) return "elsewhere";
  return isRunning(Number.parseInt(pid, 16)) ? "running" : "ended";
}

/** False when no process of this machine has the id. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

let tag: string | undefined;

function hostTag(): string {
  tag ??= createHash("sha256").update(hostname()).digest("hex").slice(0, 4);
  return tag;
}
