import type { RevisionKind } from "@sluice/core/internal";

/** What a raw `resources/stream` call may set. */
export interface CallOptions {
  readonly capabilities?: unknown;
  readonly headers?: Record<string, string>;
  readonly method?: string;
}

/** The declaration of a streaming client in the extension and literally. */
export const streaming = (terms: object = {}): object => ({
  resourceStreaming: terms,
  extensions: { "dev.sluice/resource-streaming": terms },
});

/** Posts one call as a client of that revision would, without any SDK. */
export function post(
  url: string,
  era: RevisionKind,
  uri: string,
  options: CallOptions = {},
  send: (input: string, init: RequestInit) => Promise<Response> = fetch,
): Promise<Response> {
  const { capabilities = streaming(), headers, method = "resources/stream" } = options;
  const modern = era === "modern";
  const meta = {
    ...(modern && {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
    }),
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  return send(url, {
    method: "POST",
    redirect: "manual",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream, */*",
      "mcp-protocol-version": modern ? "2026-07-28" : "2025-11-25",
      ...(modern && { "mcp-method": method, "mcp-name": uri }),
      ...headers,
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method,
      params: { uri, ...((modern || capabilities !== null) && { _meta: meta }) },
    }),
  });
}
