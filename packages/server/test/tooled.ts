import { createMcpHandler, McpServer, type AuthInfo } from "@modelcontextprotocol/server";
import type { SluiceOptions, ToolOptions } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createHouse } from "./redeeming.ts";

/** How a server with tools is made. */
export type TooledOptions = Partial<SluiceOptions> & {
  tools?: boolean | ToolOptions;
  /** A resource that the server's author registered. */
  own?: string;
  authInfo?: AuthInfo;
  /** The author tells no callers apart. */
  isUnresolved?: boolean;
};

/** A server with the tools, and what a model does with it. */
export function createTooled({
  tools = true,
  own = "own://registered",
  authInfo,
  isUnresolved = false,
  maxReadBytes,
  ...options
}: TooledOptions = {}) {
  const house = createHouse({
    anonymous: true,
    links: {},
    stores: createMemoryStores(),
    access: (_who, of) => (of.includes("hidden") ? "hide" : "allow"),
    ...(maxReadBytes !== undefined && { maxReadBytes }),
    ...(isUnresolved && { principal: undefined as never }),
    ...options,
  } as Partial<SluiceOptions>);
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    mcp.registerResource("own", own, {}, () => ({ contents: [] }));
    return house.sluice.attach(mcp, { tools });
  });
  const ask = async (method: string, params: object = {}) => {
    const body = { jsonrpc: "2.0", id: 1, method, params };
    const response = await handler.fetch(
      new Request("http://127.0.0.1/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify(body),
      }),
      { parsedBody: body, ...(authInfo && { authInfo }) },
    );
    const message = JSON.parse(/^data: ?(\{.*\})$/m.exec(await response.text())![1]!);
    return message.result ?? message.error;
  };
  const call = (name: string, args: object = {}) => ask("tools/call", { name, arguments: args });
  return { ...house, ask, call };
}
