// An app with a transport for each session, as the READMEs of both SDKs have it: run by e2e/scenarios/own-transports.test.ts.
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Sluice } from "@sluice/server";
import express, { type Express, type Request, type Response } from "express";

export async function createApp(sluice: Sluice): Promise<Express> {
  // #region app
  const { createHandler } = await import("@sluice/transport-http");
  const { toNodeHandler } = await import("@sluice/transport-http/node");

  const app = express();
  app.use(toNodeHandler(createHandler({ sluice, behind: "app" }))); // the one call, before parsers and your routes
  app.use(express.json());

  const transports: Record<string, StreamableHTTPServerTransport> = {};
  app.all("/mcp", async (req: Request, res: Response) => {
    const id = req.headers["mcp-session-id"];
    let transport = typeof id === "string" ? transports[id] : undefined;
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (opened) => void (transports[opened] = transport!),
        onsessionclosed: (closed) => void delete transports[closed],
      });
      const mcp = sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
      await mcp.connect(transport);
    }
    await transport.handleRequest(req, res, req.body);
  });
  // #endregion
  return app;
}
