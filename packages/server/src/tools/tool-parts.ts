import type { McpServer } from "@modelcontextprotocol/server";
import type { LinkUrl } from "../urls/link-url.ts";
import type { Mounts } from "../storage/mounts.ts";
import type { ListFiles } from "../resources/list-resources.ts";
import type { ResourceReader } from "../resources/resource-reader.ts";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";

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
