import type { CallToolResult } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { definedMembers, encodeBase64, trueFileName } from "@sluice/core/internal";
import { z } from "zod/v4";
import { ensureReadScopes } from "../calls/sdk-handlers.ts";
import { canStream } from "../calls/streaming-declarations.ts";
import { encodingNamed } from "../content/text-encoding.ts";
import { partMeta, type ResourcePart } from "../resources/read-part.ts";
import { parseAskedRange } from "../resources/read-range.ts";
import type { Mounts } from "../storage/mounts.ts";
import type { IssuedLink } from "../urls/create-link.ts";
import { linkAnswer } from "./link-tool.ts";
import { callNamed } from "./named-call.ts";
import { optionalInput, toolSchema } from "./tool-input.ts";
import { toolRefusal, type ToolNames, type ToolParts, type ToolPlace } from "./tool-parts.ts";

/** How much text one call of the tool gives at most. */
const maxBytes = 64 * 1024;
/** Some hosts show the text to a model, some the structure: a result has it in both. */
const copies = 2;

/** Registers the tool with which a model reads parts of resources. */
export function registerReadTool(
  parts: ToolParts,
  { mcp, isOurs, names }: ToolPlace,
  name: string,
): void {
  const { calls, reader, mounts, link: url, onError } = parts;
  const description = descriptionOf(mounts, names);
  mcp.registerTool(name, description, async ({ uri: given, range, etag, encoding }, ctx) => {
    const read = async (uri: string): Promise<CallToolResult> => {
      const call = { mcp, ctx, action: "read", uri, kind: "transfer" } as const;
      const outcome = await calls.answer<ReadOutcome>(call, async (work) => {
        await ensureReadScopes(mcp, ctx, uri);
        if (!(await isOurs(uri, ctx)))
          throw new SluiceError(
            "not_found",
            "sluice: read: resources/read of this URI is answered by the server's author",
          );
        const limited = { range: parseAskedRange(range ?? "bytes 0-"), maxBytes };
        const version = definedMembers({ etag: etag === undefined ? etag : entityTagOf(etag) });
        const textOptions = definedMembers({ encoding: encoding && encodingNamed(encoding) });
        const request = { ...limited, ...version, ...textOptions, copies, forModel: true };
        return reader.readPart({ mcp, ctx, uri, isOurs }, work, request, async (part) => {
          await work.entry.recordBegun();
          const isMarked = canStream(mcp, ctx);
          const counted = { ending: { bytes: part.bytes.byteLength } };
          if (part.media) return { answer: { part, isMarked }, ...counted };
          if (part.text === undefined) return { answer: { part, isMarked } };
          return { answer: { result: answerOf(uri, part, part.text) }, ...counted };
        });
      });
      if ("result" in outcome) return outcome.result;
      const { part, isMarked } = outcome;
      // a link is an operation of its own, with its own record
      const isLinked = names.link !== undefined && part.known?.streamable !== false;
      const link = isLinked ? await url(uri, { mcp, ctx }).catch(unlessAnonymous) : undefined;
      return link ? binaryAnswer(part, link) : linkOf(mounts, part, { uri, isMarked });
    };
    try {
      return await callNamed(parts, { mcp, ctx, given }, read);
    } catch (error) {
      return toolRefusal(error, { uri: given, ctx, onError });
    }
  });
}

/** The tag of the header for an etag of a result, which has no quotes; a model that adds them means the same. */
function entityTagOf(etag: string): string {
  return `"${etag.replaceAll('"', "")}"`;
}

/** The result, or a part that is not text. */
type ReadOutcome =
  | { readonly result: CallToolResult }
  | { readonly part: ResourcePart; readonly isMarked: boolean };

/** Callers without an identity may read where they get no links. */
function unlessAnonymous(error: unknown): undefined {
  if (SluiceError.is(error) && error.code === "unauthenticated") return undefined;
  throw error;
}

/** Base URIs that the description names; the lists have the others. */
const maxBases = 5;

/** The tool as a model sees it. */
function descriptionOf({ storages }: Mounts, { link }: ToolNames) {
  // a description is the same for all callers: it names no mount that some do not have
  const namedStorages =
    storages.length === 1 ? storages : storages.filter(({ isForAll }) => isForAll);
  const bases = namedStorages.map(({ mapper }) => mapper.baseUri);
  const places =
    bases.length > 0 ? `below ${bases.slice(0, maxBases).join(" or ")}` : "of the list";
  const such = bases[0] === undefined ? "" : `, such as ${bases[0]}notes.txt`;
  const text = z.string();
  return {
    title: "Read a part of a file",
    description:
      `Reads the text of a file ${places}, at most ${maxBytes / 1024} KiB at a time; its result says how to get the rest. Gives pictures and sound whole.` +
      (link === undefined ? "" : ` For other files, use ${link}.`),
    inputSchema: toolSchema({
      uri: text.describe(`URI of the file${such}`),
      range: optionalInput(text).describe('"lines 1-50", "lines 51-" or "bytes 0-999"'),
      etag: optionalInput(text).describe("of an earlier result: fails if the file has changed"),
      encoding: optionalInput(text).describe("such as gbk. Default: found out"),
    }),
    outputSchema: toolSchema({
      uri: text,
      text: text.optional(),
      range: text.optional(),
      lines: text.optional(),
      next: text.optional(),
      encoding: text.optional(),
      etag: text.optional(),
      size: z.number().optional(),
      mime_type: text.optional(),
      download_url: text.optional(),
      expires_at: text.optional(),
    }),
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function answerOf(uri: string, part: ResourcePart, text: string): CallToolResult {
  const { size, range, lines, next, etag: tag } = partMeta(part);
  const etag = tag?.slice(1, -1);
  const place = [range, lines].filter((said) => said !== undefined).join(", ");
  const summary = [
    `${place}${size === undefined ? "" : ` of ${size} bytes`}`,
    next === undefined ? "this is the end" : `next: ${next}`,
    ...(etag === undefined ? [] : [`etag: ${etag}`]),
    ...encodingWords(part, text),
  ].join("; ");
  return {
    content: [
      { type: "text", text },
      { type: "text", text: summary },
    ],
    structuredContent: {
      uri,
      text,
      ...definedMembers({ range, lines, size, next, etag, encoding: part.encoding }),
    },
  };
}

/** What a reader must know of text that is not UTF-8. */
function encodingWords({ encoding }: ResourcePart, text: string): string[] {
  if (encoding === undefined) return [];
  const unknown = text.split("\u{fffd}").length - 1;
  const lost = `${unknown} U+FFFD stand for bytes that are not ${encoding}: name another encoding`;
  return [`read as ${encoding}`, ...(unknown === 0 ? [] : [lost])];
}

/** A picture or sound as models take it; nothing for other files. */
function mediaContent({ media, bytes }: ResourcePart): CallToolResult["content"] {
  if (!media) return [];
  const { kind: type, mimeType } = media;
  return [{ type, data: encodeBase64(bytes), mimeType }];
}

/** A model cannot use other bytes: the text names them, and the link leads the client to them. */
async function linkOf(
  mounts: Mounts,
  part: ResourcePart,
  { uri, isMarked }: { readonly uri: string; readonly isMarked: boolean },
): Promise<CallToolResult> {
  const text = `${factsOf(part)}. The client gets its bytes with resources/read of ${uri}.`;
  const { info, mimeType, known } = part;
  const { mount } = mounts.placeOf(uri);
  const link = await mount.entries.of(info, { mimeType, isMarked, known });
  return {
    content: [{ type: "text", text }, ...mediaContent(part), { ...link, type: "resource_link" }],
    structuredContent: { uri, mime_type: mimeType, ...definedMembers({ size: info.size }) },
  };
}

/** The same with a link that every program can fetch. */
function binaryAnswer(part: ResourcePart, link: IssuedLink): CallToolResult {
  const { content, structuredContent } = linkAnswer(link, `${factsOf(part)}. `);
  const [text, resourceLink] = content;
  const { download_url, expires_at, mime_type } = structuredContent;
  const facts = { uri: link.resourceUri, mime_type, download_url, expires_at };
  return {
    content: [text!, ...mediaContent(part), resourceLink!],
    structuredContent: { ...facts, ...definedMembers({ size: link.size }) },
  };
}

function factsOf({ info, mimeType, media }: ResourcePart): string {
  const size = info.size === undefined ? "" : `, ${info.size} bytes`;
  return `${trueFileName(info.key)} is ${media ? "below" : "not text"}: ${mimeType}${size}`;
}
