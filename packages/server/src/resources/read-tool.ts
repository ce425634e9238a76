import type { CallToolResult, McpServer } from "@modelcontextprotocol/server";
import { definedMembers, SluiceError } from "@sluice/core";
import { z } from "zod";
import { isStreaming } from "../delivery/streaming-declarations.ts";
import type { Mounts } from "../mounts/mounts.ts";
import { toolFault } from "../sdk/advice.ts";
import type { ResourceCalls } from "../sdk/resource-calls.ts";
import type { AnswersFor } from "../sdk/resource-owner.ts";
import { ensureReadScopes } from "../sdk/sdk-handlers.ts";
import { partMeta, type ResourcePart } from "./read-part.ts";
import { parseAskedRange } from "./read-range.ts";
import type { ResourceReader } from "./resource-reader.ts";
import { resourceName } from "./resource-type.ts";

/** What one call of the tool gives at most. */
const mostBytes = 64 * 1024;

interface ReadToolOptions {
  readonly calls: ResourceCalls;
  readonly reader: ResourceReader;
  readonly mounts: Mounts;
  readonly onError: (error: unknown) => void;
}

/** Registers the tool of a name on a server. */
export type AttachReadTool = (
  mcp: McpServer,
  tool: { readonly name: string; readonly isOurs: AnswersFor },
) => void;

/** Makes the tool with which a model reads parts of resources. */
export function createAttachReadTool(options: ReadToolOptions): AttachReadTool {
  const { calls, reader, mounts, onError } = options;
  return (mcp, { name, isOurs }) => {
    mcp.registerTool(name, descriptionOf(mounts), async ({ uri, range, etag }, ctx) => {
      const call = { mcp, ctx, action: "read", uri, kind: "transfer" } as const;
      try {
        return await calls.answer(call, async (work) => {
          await ensureReadScopes(mcp, ctx, uri);
          if (!(await isOurs(uri, ctx)))
            throw new SluiceError("not_found", "sluice: read: the resource is not ours");
          const asked = { range: parseAskedRange(range ?? "bytes 0-"), maxBytes: mostBytes };
          const request = { ...asked, ...definedMembers({ etag }) };
          return reader.readPart({ mcp, ctx, uri, isOurs }, work, request, async (part) => {
            await work.entry.admit();
            const isMarked = isStreaming(mcp, ctx);
            return part.text === undefined
              ? { result: await linkOf(mounts, part, { uri, isMarked }) }
              : { result: answerOf(part, part.text), ending: { bytes: part.bytes.byteLength } };
          });
        });
      } catch (error) {
        const { text, isOurs: isFault } = toolFault(error);
        if (isFault && !ctx.mcpReq.signal.aborted) onError(error);
        return { isError: true, content: [{ type: "text", text: `${uri}: ${text}` }] };
      }
    });
  };
}

/** Base URIs that the description names; the lists have the others. */
const mostBases = 5;

/** The tool as a model sees it. */
function descriptionOf({ storages }: Mounts) {
  // a description is the same for all callers: it names no mount that some do not have
  const named = storages.length === 1 ? storages : storages.filter(({ isForAll }) => isForAll);
  const bases = named.map(({ mapper }) => mapper.baseUri);
  const places =
    bases.length > 0 ? `below ${bases.slice(0, mostBases).join(" or ")}` : "of the list";
  const such = bases[0] === undefined ? "" : `, such as ${bases[0]}notes.txt`;
  const text = z.string();
  return {
    title: "Read a part of a file",
    description:
      `Reads the text of a resource ${places}, or a range of it, at most ${mostBytes / 1024} KiB at a time. ` +
      "The last line of the answer says which part it is, how to ask for the next one, and the etag of the version. " +
      "Of a resource that is not text it says what it is and links to it.",
    inputSchema: z.object({
      uri: text.describe(`URI of the resource${such}`),
      range: text
        .optional()
        .describe('"lines 1-50" (from 1) or "bytes 0-999" (from 0), or open: "lines 51-"'),
      etag: text
        .optional()
        .describe("etag of an earlier answer: fails if the resource has changed since"),
    }),
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function answerOf(part: ResourcePart, text: string): CallToolResult {
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

/** A model cannot use bytes: the text names them, and the link leads the client to them. */
async function linkOf(
  mounts: Mounts,
  { info, mimeType, known }: ResourcePart,
  { uri, isMarked }: { readonly uri: string; readonly isMarked: boolean },
): Promise<CallToolResult> {
  const size = info.size === undefined ? "" : `, ${info.size} bytes`;
  const isStreamed = isMarked && known?.streamable !== false;
  const methods = isStreamed ? "resources/stream or resources/read" : "resources/read";
  const text =
    `${resourceName(info.key)} is not text: ${mimeType}${size}. ` +
    `The client gets its bytes with ${methods} of ${uri}.`;
  const { mount } = mounts.find(uri);
  const link = await mount.entries.of(info, { mimeType, isMarked, known });
  return {
    content: [
      { type: "text", text },
      { ...link, type: "resource_link" },
    ],
  };
}
