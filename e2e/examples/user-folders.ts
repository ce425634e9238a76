// The server of docs/guides/server/access.md with a folder for each user: run by e2e/examples.test.ts.
// #region verify
import { OAuthError, OAuthErrorCode, type OAuthTokenVerifier } from "@modelcontextprotocol/server";

const users = new Map([
  ["alices-token", "alice"], // in place of your database, or of your login service
  ["bobs-token", "bob"],
]);
const verifier: OAuthTokenVerifier = {
  async verifyAccessToken(token) {
    const sub = users.get(token);
    if (!sub) throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown access token");
    const expiresAt = Math.floor(Date.now() / 1_000) + 3_600; // Unix seconds
    return { token, clientId: "any", scopes: [], expiresAt, extra: { sub } };
  },
};
// #endregion

// #region folders
import { createSluice } from "sluice";
import { createFsBackend } from "sluice/node";

const folders = new Map([
  ["alice", createFsBackend({ root: "./users/alice", writable: true })],
  ["bob", createFsBackend({ root: "./users/bob", writable: true })],
]);

const sluice = createSluice({
  storage: (user) => user && folders.get(user.subject),
  principal: ({ authInfo }) =>
    authInfo && { issuer: "acme", subject: String(authInfo.extra?.sub), clientId: "any" },
});
// #endregion

// #region tool
import { McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

function createAcme() {
  const mcp = new McpServer({ name: "acme", version: "1.0.0" });
  const inputSchema = z.object({ month: z.string().regex(/^\d{4}-\d{2}$/) });
  const config = { description: "Writes the report of a month, as 2026-11", inputSchema };
  mcp.registerTool("write_report", config, async ({ month }, ctx) => {
    const user = await sluice.principal({ mcp, ctx });
    const folder = user && folders.get(user.subject);
    if (!folder) throw new Error("You have no folder on this server");
    const file = await folder.write(`${month}.csv`);
    await file.write(new TextEncoder().encode(`month,total\n${month},7\n`));
    await file.commit();
    const { url, name } = await sluice.link(`files://local/${month}.csv`, { mcp, ctx });
    return { content: [{ type: "text", text: `${name}: ${url}` }] };
  });
  return sluice.attach(mcp, { tools: true });
}
// #endregion

// #region serve
import { serve } from "sluice/node";

await serve(sluice, createAcme, { bearer: { verifier } });
// #endregion
