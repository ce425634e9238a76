import type { McpServer, ResourceTemplateType, ServerContext } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/wire";
import { isStreaming } from "./client-streaming.ts";
import { findHandler, type SdkHandler } from "../sdk/sdk-handlers.ts";

/** Declares streaming on a server that is not connected yet, to clients that {@link isStreaming} is true of. */
export function declareStreaming(mcp: McpServer): void {
  const { server } = mcp;
  server.registerCapabilities({
    resources: { stream: true } as Record<string, boolean>,
    extensions: { [EXTENSION_ID]: {} },
  });
  const set = server.setRequestHandler.bind(server) as (method: string, handler: unknown) => void;
  const declare = (method: string, handler: SdkHandler): void =>
    set(method, async ({ params }: { readonly params?: object }, ctx: ServerContext) => {
      const answer = await handler(params, ctx);
      return isStreaming(mcp, ctx) ? answer : withoutStreaming(answer);
    });
  for (const method of declaring) {
    const handler = findHandler(server, method);
    if (handler) declare(method, handler);
  }
  // the SDK sets the handler of `server/discover` when it knows the revision of the client
  server.setRequestHandler = (method: string, ...given: readonly unknown[]) => {
    (set as (...all: readonly unknown[]) => void)(method, ...given);
    if (declaring.includes(method)) declare(method, findHandler(server, method)!);
  };
}

/** A template without the mark of streamable resources. */
export function unmarked(template: ResourceTemplateType): ResourceTemplateType {
  const {
    streamable: _mark,
    _meta,
    ...rest
  } = template as ResourceTemplateType & object & { streamable?: unknown };
  const { [EXTENSION_ID]: _own, ...meta } = _meta ?? {};
  return { ...rest, ...(Object.keys(meta).length > 0 && { _meta: meta }) };
}

/** Methods whose answers declare capabilities: of the session revision and of the stateless one. */
const declaring: readonly string[] = ["initialize", "server/discover"];

function withoutStreaming(answer: Record<string, unknown>): Record<string, unknown> {
  const { resources, extensions, ...capabilities } = answer["capabilities"] as Record<
    string,
    object
  >;
  const { stream: _stream, ...otherResources } = resources as Record<string, unknown>;
  const { [EXTENSION_ID]: _own, ...others } = extensions as Record<string, unknown>;
  return {
    ...answer,
    capabilities: {
      ...capabilities,
      resources: otherResources,
      ...(Object.keys(others).length > 0 && { extensions: others }),
    },
  };
}
