import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import {
  createSluice,
  type AttachOptions,
  type AuditRecord,
  type Sluice,
  type SluiceOptions,
} from "@sluice/server";
import { toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import type { BinaryOptions, SluiceHandler } from "@sluice/transport-http";
import { withBinary, withSluice, type WithSluiceOptions } from "@sluice/transport-http/internal";
import { onTestFinished } from "vitest";

/** A server on a loopback port with Sluice attached. */
export interface Served {
  readonly url: string;
  readonly sluice: Sluice;
  readonly handler: SluiceHandler;
  readonly records: AuditRecord[];
  readonly errors: unknown[];
}

/** What a test may set. */
export interface ServeOptions {
  readonly sluice: Omit<SluiceOptions, "endpoint" | "keys" | "baseUri"> & {
    readonly baseUri?: string;
  };
  readonly attach?: AttachOptions;
  /** Takes and gives bytes beside JSON. */
  readonly binary?: BinaryOptions;
  readonly http?: WithSluiceOptions;
  readonly node?: NodeHandlerOptions;
  readonly register?: (mcp: McpServer) => void;
  /** Puts something between `node:http` and the handler. */
  readonly mount?: (handler: ReturnType<typeof toNodeHandler>) => RequestListener;
}

/** Starts one; it is closed when the test is over. */
export async function serve(options: ServeOptions): Promise<Served> {
  let listener: RequestListener | undefined;
  const server = createServer((req, res) => listener?.(req, res));
  const url = `${await listen(server)}/mcp`;
  const records: AuditRecord[] = [];
  const errors: unknown[] = [];
  const sluice = createSluice({
    baseUri: "files://demo/",
    endpoint: url,
    keys: "ephemeral",
    audit: (record) => void records.push(record),
    onError: (error) => void errors.push(error),
    onWarning: () => {},
    ...options.sluice,
  } as SluiceOptions);
  const mcp = createMcpHandler(() => {
    const mcpServer = new McpServer({ name: "test", version: "1.0.0" });
    options.register?.(mcpServer);
    return sluice.attach(mcpServer, options.attach);
  });
  const plain = withSluice(mcp, sluice, options.http);
  const handler = options.binary ? withBinary(plain, options.binary) : plain;
  const nodeHandler = toNodeHandler(handler, {
    onError: (error) => void errors.push(error),
    ...options.node,
  });
  listener = options.mount?.(nodeHandler) ?? nodeHandler;
  return { url, sluice, handler, records, errors };
}

/** Listens on a free loopback port until the test is over; gives the origin. */
export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
