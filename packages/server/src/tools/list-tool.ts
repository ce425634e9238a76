import type { Resource } from "@modelcontextprotocol/server";
import { definedMembers } from "@sluice/core/internal";
import { z } from "zod/v4";
import { listFiles } from "../resources/list-resources.ts";
import { toolRefusal, type ToolParts, type ToolPlace } from "./tool-parts.ts";

/** Registers the tool that lists files. */
export function registerListTool(parts: ToolParts, { mcp, names }: ToolPlace, name: string): void {
  const { listing, onError } = parts;
  const next = [names.read, names.link].filter((other) => other !== undefined).join(" or ");
  mcp.registerTool(name, descriptionOf(next), async ({ folder, cursor }, ctx) => {
    try {
      const { resources, nextCursor } = await listFiles(listing, { mcp, ctx }, { folder, cursor });
      const lines = resources.map(lineOf);
      if (nextCursor !== undefined)
        lines.push(`More: call ${name} with this cursor: ${nextCursor}`);
      return {
        content: [{ type: "text", text: lines.join("\n") || "No files here." }],
        structuredContent: {
          files: resources.map(fileOf),
          ...definedMembers({ next_cursor: nextCursor }),
        },
      };
    } catch (error) {
      return toolRefusal(error, { uri: folder, ctx, onError });
    }
  });
}

function descriptionOf(next: string) {
  return {
    title: "List files",
    description: `Lists files with their URIs${next === "" ? "" : ` for ${next}`}, page after page.`,
    inputSchema: z.object({
      folder: z.string().optional().describe("URI of a folder, ending in /. Default: all"),
      cursor: z.string().optional().describe("next_cursor of the page before"),
    }),
    outputSchema: z.object({
      files: z.array(
        z.object({
          uri: z.string(),
          size: z.number().optional(),
          mime_type: z.string().optional(),
          modified: z.string().optional(),
        }),
      ),
      next_cursor: z.string().optional(),
    }),
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function lineOf({ uri, size, mimeType }: Resource): string {
  const facts = [size === undefined ? undefined : `${size} bytes`, mimeType];
  return [uri, ...facts.filter((fact) => fact !== undefined)].join(", ");
}

function fileOf({ uri, size, mimeType, annotations }: Resource) {
  const modified = annotations?.lastModified;
  return { uri, ...definedMembers({ size, mime_type: mimeType, modified }) };
}
