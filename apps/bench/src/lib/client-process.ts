import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Bench } from "./bench.ts";
import { startChild } from "./child.ts";
import { watchMemory, type MemoryTrace } from "./memory-watch.ts";
import { rssBytes } from "./proc.ts";
import type { Work } from "./report-work.ts";
import { builtProgram, type ServerProcess } from "./server-process.ts";

/** A client's work, and the memory of both ends from idle to its end. */
export interface Observed extends Work {
  readonly client: MemoryTrace;
  readonly server: MemoryTrace;
  readonly serverCpuSeconds: number;
}

/** Runs a client program of this app (`dist/<name>.js`) against `server` and watches both. */
export async function observeClient(
  bench: Bench,
  name: string,
  args: readonly string[],
  server: ServerProcess,
): Promise<Observed> {
  const signal = AbortSignal.any([bench.signal, AbortSignal.timeout(180_000)]);
  const child = startChild(process.execPath, [builtProgram(name), ...args], { signal });
  try {
    const lines = createInterface(child.process.stdout!);
    const [idle] = (await Promise.race([once(lines, "line"), child.ended])) as [string];
    if (idle !== `{"idle":true}`) throw new Error(`bench: ${name} said ${idle}`);
    const serverCpuBefore = server.cpuSeconds();
    const stopServer = watchMemory(server);
    const stopClient = watchMemory({ rssBytes: () => rssBytes(child.pid) });
    try {
      const [line] = (await Promise.race([once(lines, "line"), child.ended])) as [string];
      return {
        ...(JSON.parse(line) as Work),
        client: stopClient(),
        server: stopServer(),
        serverCpuSeconds: server.cpuSeconds() - serverCpuBefore,
      };
    } finally {
      stopClient();
      stopServer();
    }
  } finally {
    await child.stop();
  }
}
