import type {
  ListResourceTemplatesResult,
  McpServer,
  ServerContext,
} from "@modelcontextprotocol/server";
import { answerCall } from "../sdk/call.ts";
import { isStreaming } from "../delivery/is-streaming.ts";
import { cacheHint } from "./list-resources.ts";
import { askHandler, guarded, handlerOf } from "../sdk/sdk-handlers.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";
import { unmarked } from "../delivery/streaming-offer.ts";

/** Lets the SDK list templates, ours and the author's, within the limits and with a record. */
export function attachTemplates(
  parts: SluiceParts,
  mcp: McpServer,
  onListed: (ctx: ServerContext) => void,
): void {
  const { server } = mcp;
  const listTemplates = handlerOf(server, "resources/templates/list");
  server.setRequestHandler("resources/templates/list", ({ params }, ctx) =>
    guarded(parts, { mcp, ctx }, async () => {
      const call = { mcp, ctx, action: "templates", kind: "request" } as const;
      const result = await answerCall(parts, call, async ({ entry }) => {
        const listed = await askHandler(listTemplates, "resources/templates/list", params, ctx);
        const templates = listed as ListResourceTemplatesResult;
        entry.facts.shown = templates.resourceTemplates.length;
        if (isStreaming(mcp, ctx)) return { result: templates };
        const resourceTemplates = templates.resourceTemplates.map((one) =>
          one.uriTemplate === parts.mapper.template ? unmarked(one) : one,
        );
        return { result: { ...templates, resourceTemplates } };
      });
      onListed(ctx);
      return { ...result, ...cacheHint(parts, mcp) };
    }),
  );
}
