import type { McpServer, CallToolResult, ServerContext } from "@modelcontextprotocol/server";
import { excerpt } from "@sluice/core/internal";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { toolFault } from "../faults/advice.ts";
import type { ResourceReader } from "../resources/resource-reader.ts";
import type { Mounts } from "../storage/mounts.ts";
import type { CreateLink } from "../urls/create-link.ts";

/** Names of the tools to register; false for one that is not wanted. */
export interface ToolOptions {
  /** Lists files and folders, 200 a page. Default `"list_files"`. */
  readonly list?: string | false;
  /** Reads text, at most 64 KiB at a time, by bytes or lines, and shows pictures and sound. Default `"read_file"`. */
  readonly read?: string | false;
  /** Tells size, type, time and digest of a file. Default `"stat_file"`. */
  readonly stat?: string | false;
  /** Makes a link to a file. Default `"get_download_link"` where `links` of the Sluice is set; else none. */
  readonly link?: string | false;
}

/** The names under which tools stand on one server; `undefined` for one that does not. */
export interface ToolNames {
  readonly list: string | undefined;
  readonly read: string | undefined;
  readonly stat: string | undefined;
  readonly link: string | undefined;
}

/** What the tools of one Sluice work with. */
export interface ToolParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  readonly reader: ResourceReader;
  readonly link: CreateLink;
  readonly hasLinks: boolean;
  readonly onError: (error: unknown) => void;
}

/** The server that a tool stands on. */
export interface ToolPlace {
  readonly mcp: McpServer;
  readonly isOurs: AnswersFor;
  readonly names: ToolNames;
}

interface RefusedCall {
  readonly uri: string | undefined;
  readonly ctx: ServerContext;
  readonly onError: (error: unknown) => void;
}

/** An error as a tool's result, in words for a model. Faults of ours go to `onError`. */
export function toolRefusal(
  error: unknown,
  { uri, ctx, onError }: RefusedCall,
): CallToolResult & { isError: true } {
  const { text, isServerFault } = toolFault(error);
  if (isServerFault && !ctx.mcpReq.signal.aborted) onError(error);
  const about = uri === undefined ? text : `${excerpt(uri)}: ${text}`;
  return { isError: true, content: [{ type: "text", text: about }] };
}
