import type {
  ListResourceTemplatesResult,
  McpServer,
  ServerContext,
} from "@modelcontextprotocol/server";
import { isStreaming, unmarked } from "../delivery/streaming-declarations.ts";
import type { ResourceCalls } from "../sdk/resource-calls.ts";
import { handlerOf } from "../sdk/sdk-handlers.ts";

/** Makes what answers `resources/templates/list` on a server. */
export type ListTemplates = (
  mcp: McpServer,
) => (params: object | undefined, ctx: ServerContext) => Promise<ListResourceTemplatesResult>;

/**
 * Lets the SDK list templates, ours and the author's, within the limits and with a record. `template` is that of the resources
 * of this Sluice.
 */
export function createListTemplates(calls: ResourceCalls, template: string): ListTemplates {
  return (mcp) => {
    const listAll = handlerOf<ListResourceTemplatesResult>(mcp.server, "resources/templates/list");
    return (params, ctx) =>
      calls.answer({ mcp, ctx, action: "templates", kind: "request" }, async ({ entry }) => {
        const listed = await listAll(params, ctx);
        entry.facts.shown = listed.resourceTemplates.length;
        if (isStreaming(mcp, ctx)) return { result: listed };
        const resourceTemplates = listed.resourceTemplates.map((one) =>
          one.uriTemplate === template ? unmarked(one) : one,
        );
        return { result: { ...listed, resourceTemplates } };
      });
  };
}
