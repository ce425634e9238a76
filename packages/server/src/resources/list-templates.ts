import type {
  ListResourceTemplatesResult,
  McpServer,
  ResourceTemplateType,
  ServerContext,
} from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import { mountsTemplate } from "../calls/resource-owner.ts";
import { handlerOf } from "../calls/sdk-handlers.ts";
import { isStreaming } from "../calls/streaming-declarations.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { streamableMark } from "../storage/resource-entry.ts";
import type { MarkRegistered } from "./list-resources.ts";

/** Makes what answers `resources/templates/list` on a server. `mark` is put on what its author registered. */
export type ListTemplates = (
  mcp: McpServer,
  mark?: MarkRegistered,
) => (params: object | undefined, ctx: ServerContext) => Promise<ListResourceTemplatesResult>;

/** Lets the SDK list templates, within the limits and with a record, and puts those of the mounts in the place of ours. */
export function createListTemplates(calls: ResourceCalls, mounts: Mounts): ListTemplates {
  return (mcp, mark = (entry) => entry) => {
    const listAll = handlerOf<ListResourceTemplatesResult>(mcp.server, "resources/templates/list");
    return (params, ctx) =>
      calls.answer(
        { mcp, ctx, action: "templates", kind: "request" },
        async ({ principal, entry }) => {
          const listed = await listAll(params, ctx);
          const isMarked = isStreaming(mcp, ctx);
          const resourceTemplates = listed.resourceTemplates.flatMap((one) => {
            if (one.uriTemplate === mountsTemplate) return templatesOf(mounts, principal, isMarked);
            return isMarked ? mark(one) : one;
          });
          entry.facts.shown = resourceTemplates.length;
          return { result: { ...listed, resourceTemplates } };
        },
      );
  };
}

/** The templates of the mounts that a principal has. */
function templatesOf(
  { all }: Mounts,
  principal: Principal | undefined,
  isMarked: boolean,
): ResourceTemplateType[] {
  const mark = isMarked ? streamableMark : {};
  return all
    .filter((mount) => mount.template && isThereFor(mount, principal))
    .map(({ template }) => ({ ...template!, ...mark }));
}
