import { createHash } from "node:crypto";
import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { createSealer, type KeyRing, type Principal } from "@sluice/core";
import type { Sluice } from "@sluice/server";
import type { StorageBackend } from "@sluice/storage";
import * as z from "zod";

/** What the tools work with. */
export interface ToolParts {
  readonly storage: StorageBackend;
  readonly sluice: Sluice;
  readonly keys: KeyRing;
  readonly principalOf: (clientId: string) => Principal;
}

/** A tool that takes its time and tells how far it is, one that makes URLs, and one that takes them back. */
export function registerTools(mcp: McpServer, parts: ToolParts): void {
  const { sluice } = parts;
  const endpoint = sluice.endpoint.url;
  mcp.registerTool(
    "hash_file",
    {
      description: "SHA-256 of a file, with progress on the way",
      inputSchema: z.object({ uri: z.string() }),
    },
    async ({ uri }, ctx) => {
      const { progressToken } = ctx.mcpReq._meta ?? {};
      const { info, body } = await parts.storage.open(keyIn(uri, sluice.baseUris[0]!), {
        signal: ctx.mcpReq.signal,
      });
      const total = info.size ?? 0;
      const hash = createHash("sha256");
      let bytes = 0;
      let eighths = 0;
      for await (const chunk of body) {
        hash.update(chunk);
        bytes += chunk.byteLength;
        // the same steps however the bytes come, so that the call can run again elsewhere
        for (; eighths < 8 && bytes * 8 >= total * (eighths + 1); eighths++)
          if (progressToken !== undefined)
            await ctx.mcpReq.notify({
              method: "notifications/progress",
              params: { progressToken, progress: eighths + 1, total: 8 },
            });
      }
      return { content: [{ type: "text", text: hash.digest("hex") }] };
    },
  );
  const sealer = createSealer({ keys: parts.keys, audience: endpoint });
  mcp.registerTool(
    "make_link",
    {
      description: "A download URL for you, good for ten minutes or for one download",
      inputSchema: z.object({ uri: z.string(), once: z.boolean().default(false) }),
    },
    async ({ uri, once }, ctx) => {
      const { token } = sealer.seal("download", {
        key: keyIn(uri, sluice.baseUris[0]!),
        use: once ? "once" : "window",
        ttlMs: 600_000,
        principal: parts.principalOf(clientOf(ctx)),
      });
      return { content: [{ type: "text", text: `${endpoint}/streams/${token}` }] };
    },
  );
  mcp.registerTool(
    "revoke_links",
    { description: "Ends every download URL that was made for you" },
    async (ctx) => {
      await sluice.revoke({ principal: parts.principalOf(clientOf(ctx)) });
      return { content: [{ type: "text", text: "revoked" }] };
    },
  );
}

function clientOf({ http }: ServerContext): string {
  const clientId = http?.authInfo?.clientId;
  if (clientId === undefined) throw new Error("the request names no user");
  return clientId;
}

function keyIn(uri: string, baseUri: string): string {
  if (!uri.startsWith(baseUri)) throw new Error(`the URI must begin with ${baseUri}`);
  return decodeURIComponent(uri.slice(baseUri.length));
}
