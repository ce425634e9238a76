import type {
  ListResourceTemplatesResult,
  McpServer,
  ServerContext,
} from "@modelcontextprotocol/server";
import { isStreaming, unmarked } from "../delivery/streaming-declarations.ts";
import { cacheHint } from "../sdk/request-caller.ts";
import type { ResourceCalls } from "../sdk/resource-calls.ts";
import { handlerOf } from "../sdk/sdk-handlers.ts";

interface TemplatesOptions {
  readonly calls: ResourceCalls;
  /** Template of the resources of this Sluice. */
  readonly template: string;
  readonly cacheTtlMs: number | undefined;
}

/** Serves `resources/templates/list` on a server. `onListed` is called when a client is about to get the answer. */
export type AttachTemplates = (mcp: McpServer, onListed: (ctx: ServerContext) => void) => void;

/** Lets the SDK list templates, ours and the author's, within the limits and with a record. */
export function createAttachTemplates({
  calls,
  template,
  cacheTtlMs,
}: TemplatesOptions): AttachTemplates {
  return (mcp, onListed) => {
    const { server } = mcp;
    const listTemplates = handlerOf<ListResourceTemplatesResult>(
      server,
      "resources/templates/list",
    );
    server.setRequestHandler("resources/templates/list", ({ params }, ctx) =>
      calls.translate({ mcp, ctx }, async () => {
        const call = { mcp, ctx, action: "templates", kind: "request" } as const;
        const result = await calls.answer(call, async ({ entry }) => {
          const templates = await listTemplates(params, ctx);
          entry.facts.shown = templates.resourceTemplates.length;
          if (isStreaming(mcp, ctx)) return { result: templates };
          const resourceTemplates = templates.resourceTemplates.map((one) =>
            one.uriTemplate === template ? unmarked(one) : one,
          );
          return { result: { ...templates, resourceTemplates } };
        });
        onListed(ctx);
        return { ...result, ...cacheHint(mcp, cacheTtlMs) };
      }),
    );
  };
}
