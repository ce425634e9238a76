import type { McpServer } from "@modelcontextprotocol/server";
import type { LinkUrl } from "../links/link-url.ts";
import type { Mounts } from "../mounts/mounts.ts";
import type { ListFiles } from "../resources/list-resources.ts";
import type { ResourceReader } from "../resources/resource-reader.ts";
import type { ResourceCalls } from "../sdk/resource-calls.ts";
import type { AnswersFor } from "../sdk/resource-owner.ts";
import { registerLinkTool } from "./link-tool.ts";
import { registerListTool } from "./list-tool.ts";
import { registerReadTool } from "./read-tool.ts";

/** Names of the tools to register; false for one that is not wanted. */
export interface ToolOptions {
  /** Lists files, page after page. Default `"list_files"`. */
  readonly list?: string | false;
  /** Reads text, at most 64 KiB at a time, by bytes or lines. Default `"read_file"`. */
  readonly read?: string | false;
  /** Makes a link to a file. Default `"get_download_link"` where `links` of the Sluice is set; else none. */
  readonly link?: string | false;
}

/** The names under which tools stand on one server; `undefined` for one that does not. */
export interface ToolNames {
  readonly list: string | undefined;
  readonly read: string | undefined;
  readonly link: string | undefined;
}

/** What the tools of one Sluice work with. */
export interface ToolParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  readonly reader: ResourceReader;
  readonly listFiles: ListFiles;
  readonly url: LinkUrl;
  readonly hasLinks: boolean;
  readonly onError: (error: unknown) => void;
}

/** The server that a tool stands on. */
export interface ToolPlace {
  readonly mcp: McpServer;
  readonly isOurs: AnswersFor;
  readonly names: ToolNames;
}

/** Registers the tools of a Sluice on a server. */
export type AttachTools = (
  mcp: McpServer,
  options: { readonly tools: ToolOptions; readonly isOurs: AnswersFor },
) => void;

/** Makes the function that registers tools. It throws a `TypeError` for a link tool of a Sluice without links. */
export function createAttachTools(parts: ToolParts): AttachTools {
  return (mcp, { tools, isOurs }) => {
    const names = namesOf(tools, parts.hasLinks);
    const place = { mcp, isOurs, names };
    if (names.list !== undefined) registerListTool(parts, place, names.list);
    if (names.read !== undefined) registerReadTool(parts, place, names.read);
    if (names.link !== undefined) registerLinkTool(parts, place, names.link);
    parts.calls.nameTools(mcp, names);
  };
}

function namesOf({ list, read, link }: ToolOptions, hasLinks: boolean): ToolNames {
  if (typeof link === "string" && !hasLinks)
    throw new TypeError("sluice: attach: the tool for links needs links: {} of createSluice");
  return {
    list: nameOf(list, "list_files"),
    read: nameOf(read, "read_file"),
    link: hasLinks ? nameOf(link, "get_download_link") : undefined,
  };
}

function nameOf(given: string | false | undefined, usual: string): string | undefined {
  return given === false ? undefined : (given ?? usual);
}
