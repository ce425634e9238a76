import type { IncomingHttpHeaders } from "node:http";
import { EXTENSION_ID, type ClientStreaming, type RevisionKind } from "@sluice/core/internal";
import { request } from "undici";

/** What came back over the wire, read to its end. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  /** The JSON-RPC message in a JSON or SSE body. */
  readonly message?: {
    readonly result?: Record<string, unknown>;
    readonly error?: {
      readonly code: number;
      readonly message: string;
      readonly data?: { readonly reason?: string };
    };
  };
}

/** A request as no SDK lies between. */
export interface RawOptions {
  readonly era?: RevisionKind;
  /** Declares streaming on this request. */
  readonly streaming?: ClientStreaming;
  /** Declares exactly this on this request. */
  readonly capabilities?: Record<string, unknown>;
  readonly token?: string;
  readonly headers?: Record<string, string>;
}

/** One JSON-RPC call to a stateless endpoint. Follows no redirect. */
export function call(
  url: string,
  method: string,
  params: Record<string, unknown>,
  { era = "modern", streaming, capabilities, token, headers }: RawOptions = {},
): Promise<RawAnswer> {
  const declared = streaming && {
    resourceStreaming: streaming,
    extensions: { [EXTENSION_ID]: streaming },
  };
  const _meta = {
    ...(era === "modern" && {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1.0.0" },
    }),
    "io.modelcontextprotocol/clientCapabilities": capabilities ?? declared ?? {},
  };
  return send("POST", url, {
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": era === "modern" ? "2026-07-28" : "2025-11-25",
      ...(era === "modern" && { "mcp-method": method }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
  });
}

/** A request of `resources/stream` for `fetch`, as a legacy client sends it. */
export function streamRequest(uri: string): RequestInit {
  const _meta = { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } };
  return {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2025-11-25",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "resources/stream",
      params: { uri, _meta },
    }),
  };
}

/** One plain request, without redirects, retries or decoding. */
export async function send(
  method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "OPTIONS",
  url: string,
  options: { readonly headers?: Record<string, string>; readonly body?: string } = {},
): Promise<RawAnswer> {
  const { statusCode, headers, body } = await request(url, { method, ...options });
  const bytes = Buffer.from(await body.bytes());
  const message = messageIn(String(headers["content-type"] ?? ""), bytes);
  return { status: statusCode, headers, bytes, ...(message && { message }) };
}

function messageIn(type: string, bytes: Buffer): RawAnswer["message"] {
  const text = bytes.toString();
  if (type.startsWith("application/json")) return JSON.parse(text) as RawAnswer["message"];
  if (!type.startsWith("text/event-stream")) return undefined;
  const data = text
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5))
    .at(-1);
  return data === undefined ? undefined : (JSON.parse(data) as RawAnswer["message"]);
}
