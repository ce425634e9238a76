import { createHash } from "node:crypto";
import type { McpServer } from "@modelcontextprotocol/server";
import { uploadIdInput, type Uploads } from "@sluice/uploads";
import { z } from "zod";
import { startLinkSite } from "./links.ts";
import type { Site, SiteOptions } from "./site.ts";

/** A site as its author makes it for the hosts of today: links, tools, and a tool that takes a file. */
export function startHostSite(options: SiteOptions = {}): Promise<Site> {
  return startLinkSite({ asking: registerKeepFile, ...options });
}

/** Registers `keep_file`, which asks for a file and says name, size and digest of what came. */
export function registerKeepFile(mcp: McpServer, uploads: Uploads): void {
  mcp.registerTool(
    "keep_file",
    {
      description: "Keeps a file of the user",
      inputSchema: z.object({ upload_id: uploadIdInput() }),
    },
    async ({ upload_id: uploadId }, ctx) => {
      const outcome = await uploads.requestFiles(ctx, {
        mcp,
        message: "Which file shall be kept?",
        fields: { file: { type: "file", title: "File", maxBytes: 64 * 1024 * 1024 } },
        uploadId,
      });
      if (outcome.action === "ask") return outcome.result;
      if (outcome.action !== "accept")
        return { content: [{ type: "text", text: `The user sent no file: ${outcome.action}` }] };
      const { file } = outcome.files;
      const hash = createHash("sha256");
      const { body } = await file.open();
      for await (const chunk of body) hash.update(chunk);
      const { name, size } = file;
      await file.remove();
      const kept = { name, size, sha256: hash.digest("hex") };
      return { content: [{ type: "text", text: JSON.stringify(kept) }], structuredContent: kept };
    },
  );
}
