import type { Life } from "../process/machine.ts";
import { endpoint } from "./cluster.ts";

/** What the client functions of the product take: requests over the product's own middleware. */
export interface McpClient {
  request(
    request: object,
    schema: unknown,
    options?: { readonly signal?: AbortSignal },
  ): Promise<unknown>;
}

/** A client of MCP 2025-11-25 without a session: as much of the SDK's as the product needs. */
export function createMcpClient(
  life: Life,
  fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>,
  subject: string,
): McpClient {
  const streaming = life.product.createStreaming({ fetch });
  let id = 0;
  return {
    async request(request, _schema, options) {
      const response = await streaming.fetch(endpoint, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2025-11-25",
          authorization: `Bearer ${subject}`,
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: ++id, ...request }),
        ...(options?.signal && { signal: options.signal }),
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw Object.assign(new Error(`HTTP ${response.status}`), { code: response.status });
      }
      const message = (await response.json()) as {
        result?: unknown;
        error?: { message: string; code: number };
      };
      if (message.error) throw Object.assign(new Error(message.error.message), message.error);
      return message.result;
    },
  };
}
