import type { FetchLike, RequestingClient } from "@sluice/client";

/** A client that is nothing but a POST: what an SDK does with a request, without an SDK. */
export function createRawClient(
  url: string,
  fetch: FetchLike,
  headers: Record<string, string> = {},
): RequestingClient {
  let id = 0;
  return {
    async request(request: object, _schema: unknown, options?: { signal?: AbortSignal }) {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ jsonrpc: "2.0", id: ++id, ...request }),
        ...(options?.signal && { signal: options.signal }),
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw Object.assign(new Error("HTTP"), { code: response.status });
      }
      const message = (await response.json()) as { error?: object; result?: unknown };
      if (message.error) throw Object.assign(new Error("JSON-RPC"), message.error);
      return message.result;
    },
  };
}
