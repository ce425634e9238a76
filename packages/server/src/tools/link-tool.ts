import type { CallToolResult } from "@modelcontextprotocol/server";
import { curlLine, definedMembers } from "@sluice/core/internal";
import { z } from "zod/v4";
import type { IssuedLink } from "../urls/create-link.ts";
import { callNamed } from "./named-call.ts";
import { optionalInput, toolSchema } from "./tool-input.ts";
import { toolRefusal, type ToolParts, type ToolPlace } from "./tool-parts.ts";

/** Registers the tool that makes links. */
export function registerLinkTool(parts: ToolParts, { mcp }: ToolPlace, name: string): void {
  const { link: url, onError } = parts;
  mcp.registerTool(name, description, async ({ uri: given, disposition }, ctx) => {
    const options = { mcp, ctx, ...definedMembers({ disposition }) };
    try {
      return await callNamed(parts, { mcp, ctx, given }, async (uri) =>
        linkAnswer(await url(uri, options)),
      );
    } catch (error) {
      return toolRefusal(error, { uri: given, ctx, onError });
    }
  });
}

const description = {
  title: "Get a download link",
  description:
    "Creates a short-lived link to a file of any type or size, for the user to open or for curl. Call again for a new one.",
  inputSchema: toolSchema({
    uri: z.string(),
    disposition: optionalInput(z.enum(["attachment", "inline"])).describe(
      "inline: shown in a browser",
    ),
  }),
  outputSchema: toolSchema({
    download_url: z.string(),
    download_url_auth: z.literal("none"),
    expires_at: z.string(),
    resource_uri: z.string(),
    name: z.string(),
    mime_type: z.string(),
    size: z.number().optional(),
    sha256: z.string().optional(),
  }),
  annotations: { readOnlyHint: true, openWorldHint: false },
};

interface LinkAnswer extends CallToolResult {
  structuredContent: {
    download_url: string;
    download_url_auth: "none";
    expires_at: string;
    resource_uri: string;
    name: string;
    mime_type: string;
    size?: number;
    sha256?: string;
  };
}

/** A link as a tool's result: some hosts show the text, some the `resource_link`, some read the structure. */
export function linkAnswer(link: IssuedLink, preface = ""): LinkAnswer {
  const { url, name, mimeType, size, sha256, resourceUri, use } = link;
  const facts = [
    name,
    ...(size === undefined ? [] : [`${size} bytes`]),
    ...(sha256 === undefined ? [] : [`sha-256 ${sha256}`]),
  ].join(", ");
  const times = use === "once" ? "once, " : "";
  const text =
    `${preface}${facts}. Open or fetch it ${times}within ${lifeOf(link)}, no Authorization header:\n${url}\n` +
    `${curlLine(url, name)}\n` +
    "Your sandbox cannot reach that host? Allow it, or give the user the link.";
  return {
    content: [
      { type: "text", text },
      {
        type: "resource_link",
        uri: url,
        name,
        mimeType,
        ...definedMembers({ size }),
      },
    ],
    structuredContent: {
      download_url: url,
      download_url_auth: "none",
      expires_at: new Date(link.expiresAt).toISOString(),
      resource_uri: resourceUri,
      name,
      mime_type: mimeType,
      ...definedMembers({ size, sha256 }),
    },
  };
}

/** The life that a link has left, in the largest unit that says it well. */
function lifeOf({ expiresAt }: IssuedLink): string {
  const minutes = Math.max(1, Math.round((expiresAt - Date.now()) / 60_000));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2_880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1_440)} days`;
}
