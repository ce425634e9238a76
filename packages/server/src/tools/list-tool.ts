import type { CallToolResult, Resource } from "@modelcontextprotocol/server";
import { definedMembers } from "@sluice/core/internal";
import { formatUnlisted } from "@sluice/storage/internal";
import { z } from "zod/v4";
import { listFolder, type FolderPage } from "../resources/list-folder.ts";
import { optionalInput, toolSchema } from "./tool-input.ts";
import { toolRefusal, type ToolParts, type ToolPlace } from "./tool-parts.ts";

/** Registers the tool that lists files. */
export function registerListTool(parts: ToolParts, { mcp, names }: ToolPlace, name: string): void {
  const next = [names.read, names.link].filter((other) => other !== undefined).join(" or ");
  mcp.registerTool(name, descriptionOf(next), async (request, ctx) => {
    try {
      return answerOf(await listFolder(parts, { mcp, ctx }, request), request, name);
    } catch (error) {
      return toolRefusal(error, { uri: request.folder, ctx, onError: parts.onError });
    }
  });
}

function descriptionOf(next: string) {
  const text = z.string();
  return {
    title: "List files",
    description: `Lists files with their URIs${next === "" ? "" : ` for ${next}`}, in subfolders too, and folders.`,
    inputSchema: toolSchema({
      folder: optionalInput(text).describe("URI or path. Default: all"),
      filter: optionalInput(text).describe("Part of a name, or *.pdf"),
      cursor: optionalInput(text).describe("next_cursor of the page before"),
    }),
    outputSchema: toolSchema({
      files: z.array(
        z.object({
          uri: text,
          size: z.number().optional(),
          mime_type: text.optional(),
          modified: text.optional(),
        }),
      ),
      folders: z.array(z.object({ uri: text, files: z.number() })).optional(),
      templates: z.array(z.object({ uri_template: text, title: text.optional() })).optional(),
      unlisted: text.optional(),
      next_cursor: text.optional(),
    }),
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function answerOf(
  { resources, folders, templates, nextCursor, unlisted: counts, isCut }: FolderPage,
  { filter }: { readonly filter?: string | undefined },
  name: string,
): CallToolResult {
  const lines = resources.map(lineOf);
  if (nextCursor !== undefined) lines.push(`More: call ${name} with this cursor: ${nextCursor}`);
  if (isCut) lines.push("There are more files than are looked through: name a folder.");
  if (lines.length === 0) lines.push(filter === undefined ? "No files here." : "No name matches.");
  const unlisted = counts && formatUnlisted(counts);
  if (unlisted !== undefined) lines.push(`${unlisted}.`);
  const made = templates.map(({ uriTemplate, title, description }) => ({
    uri_template: uriTemplate,
    ...definedMembers({ title: title ?? description }),
  }));
  const others = [
    ...folders.map(({ uri, files }) => `Folder: ${uri}, files: ${files}`),
    ...made.map(({ uri_template: template, title }) =>
      ["Made on demand: " + template, ...(title === undefined ? [] : [title])].join(", "),
    ),
  ];
  return {
    content: [lines, ...(others.length === 0 ? [] : [others])].map((block) => ({
      type: "text",
      text: block.join("\n"),
    })),
    structuredContent: {
      files: resources.map(fileOf),
      ...definedMembers({
        folders: folders.length === 0 ? undefined : folders,
        templates: made.length === 0 ? undefined : made,
        unlisted,
        next_cursor: nextCursor,
      }),
    },
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
