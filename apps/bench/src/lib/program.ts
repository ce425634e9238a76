/** What the programs under test share: how they tell that they are ready, and what their work took. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** How long a program that is watched does nothing at first, in milliseconds. */
export const idleMs = 400;

/** What a client under test prints about its work, as one line of JSON. */
export interface Work {
  readonly bytes: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** What one more costs where `count` are there: a line of `scale-server`. */
export interface OneMore {
  readonly count: number;
  readonly bytes: number;
  readonly microseconds: number;
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

/** Listens on loopback, on any port unless one is given, then prints the port and the MCP endpoint as a line of JSON. */
export function listen(server: Server, wanted = 0): void {
  server.listen(wanted, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo;
    console.log(JSON.stringify({ port, endpoint: `http://127.0.0.1:${port}/mcp` }));
  });
}

/** A loopback port that is free at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** The one of `ways` that the first argument names. */
export function wayOf<Way>(ways: Readonly<Record<string, Way>>, name = ""): Way {
  const way = ways[name];
  if (way === undefined) throw new TypeError(`bench: no way "${name}"`);
  return way;
}

let collect: (() => void) | undefined;

/** Bytes that this process uses once everything is collected that can be. */
export async function usedBytes(): Promise<number> {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  for (let n = 0; n < 3; n += 1) {
    collect();
    await turn();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
