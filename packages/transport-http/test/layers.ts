import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createMemoryEventStore } from "@sluice/state/internal";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { withBinary, withSluice } from "@sluice/transport-http/internal";
import { withResume } from "../../resume/src/internal.ts";

export const url = "http://127.0.0.1:1/mcp";

interface Limits {
  readonly maxRequestBodySize?: number;
}

/** The layers around a server, in two orders. */
export function layers(limits: Limits = {}): Record<string, McpFetchHandler> {
  const sluice = createSluice({
    endpoint: url,
    keys: "ephemeral",
    baseUri: "files://demo/",
    storage: createMemoryBackend(),
    onError: () => {},
    onWarning: () => {},
  });
  const inner = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1" });
    mcp.registerTool("none", {}, () => ({ content: [] }));
    return mcp;
  });
  const store = createMemoryEventStore();
  return {
    "withBinary(withSluice(withResume()))": withBinary(
      withSluice(withResume(inner, sluice, { stores: { events: store }, ...limits }), sluice),
    ),
    "withResume(withBinary(withSluice()))": withResume(
      withBinary(withSluice(inner, sluice, limits)),
      sluice,
      { stores: { events: store } },
    ),
  };
}

/** A POST of a session. */
export function post(body: string, headers: Record<string, string> = {}): Request {
  return new Request(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-06-18",
      ...headers,
    },
    body,
  });
}

/** A request. */
export const call = (method: string, params: object = {}): object => ({
  jsonrpc: "2.0",
  id: 1,
  method,
  params,
});
