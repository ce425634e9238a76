/** A server in a separate process that reports its state: its answers to "count" are compared before and after. */
import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { listenWebSocket } from "@sluice/transport-ws";

/** Counts of the process. */
export interface Counts {
  readonly connections: number;
  /** Tool calls that run, and those whose signal aborted. */
  readonly running: number;
  readonly aborted: number;
  /** Timers and sockets that keep the process busy, by kind. */
  readonly resources: Readonly<Record<string, number>>;
  readonly heapBytes: number;
  readonly residentBytes: number;
}

let running = 0;
let aborted = 0;
const sluice = createSluice({
  storage: createMemoryBackend({ "a.bin": "0123456789" }),
  baseUri: "files://demo/",
  endpoint: "http://127.0.0.1:1/mcp",
  keys: [generateKey()],
});

const server = await listenWebSocket(
  () => {
    const mcp = new McpServer({ name: "serving", version: "1.0.0" });
    mcp.registerTool("hang", {}, async ({ mcpReq }) => {
      running += 1;
      await new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve));
      running -= 1;
      aborted += 1;
      return { content: [] };
    });
    return sluice.attach(mcp);
  },
  { connections: { perProcess: 10_000 } },
);

function count(): Counts {
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  return {
    connections: server.connections,
    running,
    aborted,
    resources,
    heapBytes: heapUsed + external,
    residentBytes: rss,
  };
}

process.on("message", () => process.send!(count()));
process.on("disconnect", () => process.exit());
process.send!(server.url);
