import type { McpServer } from "@modelcontextprotocol/server";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { registerLinkTool } from "./link-tool.ts";
import { registerListTool } from "./list-tool.ts";
import { registerReadTool } from "./read-tool.ts";
import { registerStatTool } from "./stat-tool.ts";
import type { ToolNames, ToolOptions, ToolParts } from "./tool-parts.ts";

/** Registers the tools of a Sluice on a server. Throws a `TypeError` for a link tool of a Sluice without links. */
export function attachTools(
  mcp: McpServer,
  parts: ToolParts,
  { tools, isOurs }: { readonly tools: ToolOptions; readonly isOurs: AnswersFor },
): void {
  const names = namesOf(tools, parts.hasLinks);
  const place = { mcp, isOurs, names };
  if (names.list !== undefined) registerListTool(parts, place, names.list);
  if (names.read !== undefined) registerReadTool(parts, place, names.read);
  if (names.stat !== undefined) registerStatTool(parts, place, names.stat);
  if (names.link !== undefined) registerLinkTool(parts, place, names.link);
  parts.calls.nameTools(mcp, names);
}

function namesOf({ list, read, stat, link }: ToolOptions, hasLinks: boolean): ToolNames {
  if (typeof link === "string" && !hasLinks)
    throw new TypeError(
      "sluice: attach: the tool for links needs links: pass links: true to createSluice",
    );
  return {
    list: nameOf(list, "list_files"),
    read: nameOf(read, "read_file"),
    stat: nameOf(stat, "stat_file"),
    link: hasLinks ? nameOf(link, "get_download_link") : undefined,
  };
}

function nameOf(given: string | false | undefined, usual: string): string | undefined {
  return given === false ? undefined : (given ?? usual);
}
