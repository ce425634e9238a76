import type { SluiceOptions } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { definedMembers } from "@sluice/core/internal";
import { call, type RawAnswer } from "./raw.ts";
import { baseUri, startSite, type Site, type SiteOptions } from "./site.ts";

/** What `get_download_link` answers. */
export interface LinkAnswer {
  readonly download_url: string;
  readonly expires_at: string;
  readonly name: string;
  /** As the model reads it. */
  readonly text: string;
}

/** How a link is asked for. */
export interface LinkOptions {
  /** Bearer token. */
  readonly token?: string;
  readonly disposition?: "attachment" | "inline";
}

/** A site whose tools give links. */
export function startLinkSite(options: SiteOptions = {}): Promise<Site> {
  const own = typeof options.sluice === "function" ? options.sluice() : options.sluice;
  return startSite({
    attach: { tools: true },
    ...options,
    sluice: { links: {}, stores: createMemoryStores(), ...own } as Partial<SluiceOptions>,
  });
}

/** Calls `get_download_link` as a host does. */
export async function askForLink(
  site: Site,
  key: string,
  { token, disposition }: LinkOptions = {},
): Promise<RawAnswer> {
  const args = { uri: `${baseUri}${key}`, ...definedMembers({ disposition }) };
  return call(
    site.url,
    "tools/call",
    { name: "get_download_link", arguments: args },
    {
      headers: { "mcp-name": "get_download_link" },
      ...definedMembers({ token }),
    },
  );
}

/** A link to a file of a site. Throws what the tool says instead. */
export async function linkTo(
  site: Site,
  key: string,
  options: LinkOptions = {},
): Promise<LinkAnswer> {
  const { message, bytes } = await askForLink(site, key, options);
  const { isError, structuredContent, content } = message?.result ?? {};
  if (isError === true || structuredContent === undefined)
    throw new Error(`get_download_link: ${bytes.toString()}`);
  const [{ text }] = content as [{ text: string }];
  return { ...(structuredContent as LinkAnswer), text };
}
