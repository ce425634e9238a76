import { createHash } from "node:crypto";
import type { McpServer } from "@modelcontextprotocol/server";
import type { Uploads } from "@sluice/uploads";
import { startLinkSite } from "./links.ts";
import type { Site, SiteOptions } from "./site.ts";

/** A site as its author makes it for the hosts of today: links, tools, and a tool that takes a file. */
export function startHostSite(options: SiteOptions = {}): Promise<Site> {
  return startLinkSite({ asking: registerKeepFile, ...options });
}

/** Registers `keep_file`, which asks for a file and says name, size and digest of what came. */
export function registerKeepFile(mcp: McpServer, uploads: Uploads): void {
  uploads.registerTool(
    mcp,
    "keep_file",
    {
      description: "Keeps a file of the user",
      message: "Which file shall be kept?",
      fields: { file: { type: "file", title: "File", maxBytes: 64 * 1024 * 1024 } },
    },
    async ({ files: { file } }) => {
      const hash = createHash("sha256");
      const { body } = await file.open();
      for await (const chunk of body) hash.update(chunk);
      const { name, size } = file;
      const kept = { name, size, sha256: hash.digest("hex") };
      return { content: [{ type: "text", text: JSON.stringify(kept) }], structuredContent: kept };
    },
  );
}
