import type { CallToolResult, McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { z } from "zod";
import { answerCall } from "../sdk/call.ts";
import { isStreaming } from "../delivery/is-streaming.ts";
import { partMeta, type Part } from "./read-part.ts";
import { parseAskedRange } from "./read-range.ts";
import { readAs } from "./read-resource.ts";
import { resourceEntry } from "./resource-entry.ts";
import { resourceName } from "./resource-type.ts";
import { ensureReadScopes } from "../sdk/sdk-handlers.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";
import type { StreamCall } from "../delivery/stream-resource.ts";
import { toolFault } from "../sdk/tool-fault.ts";

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
        `Reads the text of a resource below ${baseUri}, or a range of it, at most ${mostBytes / 1024} KiB at a time. ` +
        "The last line of the answer says which part it is, how to ask for the next one, and the etag of the version. " +
        "Of a resource that is not text it says what it is and links to it.",
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
              if (part.text === undefined)
                return {
                  result: await linkOf(parts, part, { uri, isMarked: isStreaming(mcp, ctx) }),
                };
              const result = answerOf(part, part.text);
              return { result, ending: { bytes: part.bytes.byteLength } };
            });
          },
        );
      } catch (error) {
        return refusalOf(parts, { error, uri, ctx });
      }
    },
  );
}

function answerOf(part: Part, text: string): CallToolResult {
  const { size, range, lines, next, etag } = partMeta(part);
  const place = [range, lines].filter((said) => said !== undefined).join(", ");
  const summary = [
    `${place}${size === undefined ? "" : ` of ${size} bytes`}`,
    next === undefined ? "this is the end" : `next: ${next}`,
    ...(etag === undefined ? [] : [`etag: ${etag}`]),
  ].join("; ");
  return {
    content: [
      { type: "text", text },
      { type: "text", text: summary },
    ],
  };
}

/** Bytes are of no use to a model: it is told what they are, and the client how to get them. */
async function linkOf(
  parts: SluiceParts,
  { info, mimeType }: Part,
  { uri, isMarked }: { readonly uri: string; readonly isMarked: boolean },
): Promise<CallToolResult> {
  const size = info.size === undefined ? "" : `, ${info.size} bytes`;
  const methods = isMarked ? "resources/stream or resources/read" : "resources/read";
  const text =
    `${resourceName(info.key)} is not text: ${mimeType}${size}. ` +
    `The client gets its bytes with ${methods} of ${uri}.`;
  const link = await resourceEntry(parts, info, { mimeType, isMarked });
  return {
    content: [
      { type: "text", text },
      { ...link, type: "resource_link" },
    ],
  };
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
