import { createMcpHandler, McpServer, type AuthInfo } from "@modelcontextprotocol/server";
import { EXTENSION_ID, type RevisionKind } from "@sluice/core/internal";
import type { AttachOptions, Sluice } from "@sluice/server";
import { openReplySlot, type ReplySlot } from "@sluice/server/internal";

/** Both eras, for `test.each`. */
export const eras: readonly RevisionKind[] = ["legacy", "modern"];

/** One exchange with a server, as a transport with a slot sees it. */
export interface Exchange {
  readonly status: number;
  /** The JSON-RPC message. */
  readonly message: { result?: any; error?: { code: number; message: string; data?: any } };
  readonly slot: ReplySlot;
}

/** What an exchange may set. */
export interface TalkOptions {
  readonly params?: Record<string, unknown>;
  readonly capabilities?: unknown;
  readonly authInfo?: AuthInfo;
  readonly headers?: Record<string, string>;
  /** Without one the answer must fit into JSON-RPC. */
  readonly hasSlot?: boolean;
  /** Tells that the client went away. */
  readonly signal?: AbortSignal;
}

/** A declaration of streaming in the extension. */
export const declares = (terms: object = {}): object => ({ extensions: { [EXTENSION_ID]: terms } });

/** Makes the function that calls a method of a fresh server with the Sluice attached. */
export function talkTo(
  sluice: Sluice,
  register: (mcp: McpServer) => void = () => {},
  registerLate: (mcp: McpServer) => void = () => {},
  attachOptions: AttachOptions = {},
): (era: RevisionKind, method: string, options?: TalkOptions) => Promise<Exchange> {
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    register(mcp);
    sluice.attach(mcp, attachOptions);
    registerLate(mcp);
    return mcp;
  });
  return async (era, method, options = {}) => {
    const { params = {}, capabilities = declares(), authInfo, headers, hasSlot = true } = options;
    const isModern = era === "modern";
    const body = {
      jsonrpc: "2.0",
      id: 7,
      method,
      params: {
        ...params,
        _meta: {
          ...(params["_meta"] as object | undefined),
          ...(isModern && {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
          }),
          "io.modelcontextprotocol/clientCapabilities": capabilities,
        },
      },
    };
    const request = new Request("http://127.0.0.1/mcp", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": isModern ? "2026-07-28" : "2025-11-25",
        ...(isModern && { "mcp-method": method }),
        ...(isModern && typeof params["uri"] === "string" && { "mcp-name": params["uri"] }),
        ...(isModern && typeof params["name"] === "string" && { "mcp-name": params["name"] }),
        ...headers,
      },
      body: JSON.stringify(body),
      ...(options.signal && { signal: options.signal }),
    });
    const slot = hasSlot ? openReplySlot(request) : {};
    const response = await handler.fetch(request, {
      parsedBody: body,
      ...(authInfo && { authInfo }),
    });
    const text = await response.text();
    const data = text.startsWith("{") ? text : (/^data: ?(\{.*\})$/m.exec(text)?.[1] ?? "{}");
    return { status: response.status, message: JSON.parse(data), slot };
  };
}
