import type { McpServer } from "@modelcontextprotocol/server";
import type { RevisionKind } from "@sluice/core/internal";
import type { AttachOptions, MountOptions, SluiceOptions } from "@sluice/server";
import { createMemoryBackend, type MemoryBackend } from "@sluice/storage";
import { z } from "zod";
import { alice, as, createHouse, type House } from "./redeeming.ts";
import { talkTo, type Exchange, type TalkOptions } from "./talking.ts";

/** Base URIs of the two mounts of most tests. */
export const docs = "docs://acme/";
export const media = "media://acme/";

/** A Sluice with mounts, and what a client does with it. */
export interface Mounted extends House {
  readonly talk: (era: RevisionKind, method: string, options?: TalkOptions) => Promise<Exchange>;
  /** The result of a method for alice, or for the caller of other headers. */
  readonly ask: (era: RevisionKind, method: string, params?: object, who?: object) => Promise<any>;
  /** URIs of each page of the list. */
  readonly pages: (era: RevisionKind, who?: object) => Promise<string[][]>;
  /** The download URL of a resource, as a token. */
  readonly tokenOf: (uri: string, who?: object) => Promise<string>;
}

export type MountedOptions = Partial<SluiceOptions> & {
  readonly register?: (mcp: McpServer, house: House) => void;
  readonly attach?: AttachOptions;
};

/** The same object in two mounts, with content that names the mount. */
export function createTwo(): { docsStorage: MemoryBackend; mediaStorage: MemoryBackend } {
  return {
    docsStorage: createMemoryBackend({ "a.txt": "of docs", "b.txt": "more docs" }),
    mediaStorage: createMemoryBackend({ "a.txt": "of media", "clip.bin": "\0" }),
  };
}

export function mounted(
  mounts: readonly MountOptions[],
  { register, attach, ...options }: MountedOptions = {},
): Mounted {
  const house = createHouse({ mounts, ...options } as Partial<SluiceOptions>);
  const talk = talkTo(
    house.sluice,
    (mcp) => {
      // a tool that gives a link, for the tests of links
      mcp.registerTool(
        "link",
        { inputSchema: z.object({ uri: z.string() }) },
        async (args, ctx) => ({
          content: await house.sluice.resourceLink(args.uri, { mcp, ctx }),
        }),
      );
      register?.(mcp, house);
    },
    undefined,
    { tools: { read: "read_file", list: false, link: false }, ...attach },
  );
  const headersOf = (who: object): Record<string, string> => as({ ...alice, ...who });
  const ask: Mounted["ask"] = async (era, method, params = {}, who = {}) => {
    const headers = headersOf(who);
    const { message } = await talk(era, method, { params: { ...params }, headers });
    return message.result ?? message;
  };
  return {
    ...house,
    talk,
    ask,
    async pages(era, who) {
      const pages: string[][] = [];
      let cursor: string | undefined;
      do {
        const page = await ask(era, "resources/list", { cursor }, who);
        if (!page.resources) throw new Error(JSON.stringify(page));
        pages.push(page.resources.map(({ uri }: { uri: string }) => uri));
        cursor = page.nextCursor;
      } while (cursor !== undefined && pages.length < 1_000);
      return pages;
    },
    async tokenOf(uri, who = {}) {
      const { message } = await talk("modern", "resources/stream", {
        params: { uri },
        headers: headersOf(who),
        hasSlot: false,
      });
      return String(message.result?.downloadUrl ?? JSON.stringify(message)).split("/streams/")[1]!;
    },
  };
}

/** Everything of an exchange that a client can see. */
export const seen = ({ status, message, slot }: Exchange): string =>
  JSON.stringify({ status, message, fault: slot.fault, reply: slot.reply?.status });
