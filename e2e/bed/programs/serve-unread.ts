/**
 * MCP over HTTP and WebSocket in a process of its own, with one file. It tells its parent the port, and what it is asked:
 * its memory, how its reads went, and the port of another server that it starts.
 */
import { createServer } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { SHARED_REQUEST_HEADER } from "@sluice/server/internal";
import { createMemoryBackend } from "@sluice/storage";
import { type SluiceHandler } from "@sluice/transport-http";
import { withSluice } from "@sluice/transport-http/internal";
import { hardenServer, toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { createWebSocketHandler, type WebSocketHandlerOptions } from "@sluice/transport-ws";
import { listen } from "../listen.ts";
import { watchMemory } from "../watch.ts";

/** What the parent may set. */
export interface UnreadSettings {
  readonly fileBytes: number;
  readonly limits?: SluiceOptions["limits"];
  readonly node?: NodeHandlerOptions;
  readonly ws?: Partial<WebSocketHandlerOptions>;
  readonly connections?: number;
  /** Gives places back when storage was read, as a transport does that does not say when answers are sent. */
  readonly early?: boolean;
}

/** How the calls of reading and streaming went. */
export type Outcomes = Readonly<Record<string, number>>;

const outcomes: Record<string, number> = {};

/** Starts a server; gives its port. */
async function serve(settings: UnreadSettings): Promise<number> {
  const { fileBytes, limits, node, early = false, connections = 2_000 } = settings;

  const http = hardenServer(createServer(), { connections: { perProcess: connections } });
  const { port } = await listen(http);
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": new Uint8Array(fileBytes), "small.txt": "small" }),
    baseUri: "files://site/",
    endpoint,
    keys: "ephemeral",
    maxReadBytes: fileBytes,
    grant: { use: "window" },
    audit({ action, outcome }) {
      const name = `${action} ${outcome}`;
      outcomes[name] = (outcomes[name] ?? 0) + 1;
    },
    onError: () => {},
    onWarning: () => {},
    ...(limits && { limits }),
  });
  const factory = (): McpServer =>
    sluice.attach(new McpServer({ name: "unread", version: "1.0.0" }));
  const handler: SluiceHandler = withSluice(createMcpHandler(factory), sluice);
  const forgetful: SluiceHandler = {
    ...handler,
    fetch(request, options) {
      const headers = new Headers(request.headers);
      headers.delete(SHARED_REQUEST_HEADER);
      return handler.fetch(new Request(request, { headers }), options);
    },
  };
  http.on("request", toNodeHandler(early ? forgetful : handler, { onError: () => {}, ...node }));
  const webSocket = createWebSocketHandler(factory, {
    url: `ws://127.0.0.1:${port}/mcp`,
    ...settings.ws,
  });
  http.on("upgrade", (request, socket, head) => {
    if (!webSocket.upgrade(request, socket, head)) socket.destroy();
  });
  return port;
}

// without a flag on the command line, which would be there for every other use
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
const memory = watchMemory();
process.on("message", (question: string | UnreadSettings) => {
  if (typeof question === "object") void serve(question).then((port) => process.send!({ port }));
  if (question === "memory") process.send!(memory());
  if (question === "outcomes") process.send!(outcomes);
  if (question === "heap") {
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    process.send!({ heapUsed, external });
  }
});
process.on("disconnect", () => process.exit());
process.send!({ port: await serve(JSON.parse(process.argv[2] ?? "{}") as UnreadSettings) });
