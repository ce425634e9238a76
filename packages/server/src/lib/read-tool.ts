import type {
  CallToolResult,
  ContentBlock,
  McpServer,
  ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { z } from "zod";
import { answerCall } from "./call.ts";
import { partMeta, type Part } from "./read-part.ts";
import { parseAskedRange } from "./read-range.ts";
import { contentOf, readAs } from "./read-resource.ts";
import { ensureReadScopes } from "./sdk-handlers.ts";
import type { SluiceParts } from "./sluice-parts.ts";
import type { StreamCall } from "./stream-resource.ts";
import { toolFault } from "./tool-fault.ts";

/** What one call of the tool gives at most. */
const mostBytes = 64 * 1024;

/** Registers the tool with which a model reads parts of resources. */
export function attachReadTool(
  parts: SluiceParts,
  mcp: McpServer,
  { name, isOurs }: { name: string; isOurs: StreamCall["isOurs"] },
): void {
  const { baseUri } = parts.mapper;
  mcp.registerTool(
    name,
    {
      title: "Read a part of a file",
      description:
        `Reads a resource below ${baseUri}, or a range of it, at most ${mostBytes / 1024} KiB at a time. ` +
        "The last line of the answer says which part it is, how to ask for the next one, and the etag of the version.",
      inputSchema: z.object({
        uri: z.string().describe(`URI of the resource, such as ${baseUri}notes.txt`),
        range: z
          .string()
          .optional()
          .describe('"lines 1-50" (from 1) or "bytes 0-999" (from 0), or open: "lines 51-"'),
        etag: z
          .string()
          .optional()
          .describe("etag of an earlier answer: fails if the resource has changed since"),
      }),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    async ({ uri, range = "bytes 0-", etag }, ctx) => {
      try {
        return await answerCall(
          parts,
          { mcp, ctx, action: "read", uri, kind: "transfer" },
          async (work) => {
            await ensureReadScopes(mcp, ctx, uri);
            if (!(await isOurs(uri, ctx)))
              throw new SluiceError("not_found", "sluice: read: the resource is not ours");
            const asked = {
              range: parseAskedRange(range),
              maxBytes: mostBytes,
              ...(etag !== undefined && { etag }),
            };
            return readAs(parts, { mcp, ctx, uri, isOurs }, work, asked, async (part) => {
              await work.entry.admit();
              return { result: answerOf(uri, part), ending: { bytes: part.bytes.byteLength } };
            });
          },
        );
      } catch (error) {
        return refusalOf(parts, { error, uri, ctx });
      }
    },
  );
}

function answerOf(uri: string, part: Part): CallToolResult {
  const { size, range, lines, next, etag } = partMeta(part);
  const place = [range, lines].filter((text) => text !== undefined).join(", ");
  const summary = [
    `${place}${size === undefined ? "" : ` of ${size} bytes`}`,
    next === undefined ? "this is the end" : `next: ${next}`,
    ...(etag === undefined ? [] : [`etag: ${etag}`]),
  ].join("; ");
  const { mimeType, text } = part;
  const content: ContentBlock =
    text === undefined
      ? { type: "resource", resource: { uri, mimeType, ...contentOf(part) } }
      : { type: "text", text };
  return { content: [content, { type: "text", text: summary }] };
}

/** A model can do something about most of what goes wrong: it is told what. */
function refusalOf(
  parts: SluiceParts,
  { error, uri, ctx }: { error: unknown; uri: string; ctx: ServerContext },
): CallToolResult {
  const { text, isOurs } = toolFault(error);
  if (isOurs && !ctx.mcpReq.signal.aborted) parts.onError(error);
  return { isError: true, content: [{ type: "text", text: `${uri}: ${text}` }] };
}
