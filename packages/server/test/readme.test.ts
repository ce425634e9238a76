import { McpServer } from "@modelcontextprotocol/server";
import { formatKey, generateKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { talkTo } from "./talking.ts";

const members = new Set(["alice"]);

test("the examples of the README run", async () => {
  const keys = formatKey(generateKey());
  const storage = createMemoryBackend({ "report.pdf": "%PDF", "drafts/plan.txt": "soon" });
  const stores = createMemoryStores();
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);

  // #region server
  const { createSluice } = await import("@sluice/server");

  const sluice = createSluice({
    storage,
    baseUri: "files://acme/",
    endpoint: "https://mcp.example.com/mcp",
    keys,
    principal: ({ authInfo }) =>
      authInfo && {
        issuer: "https://id.example.com",
        subject: String(authInfo.extra?.["sub"]),
        clientId: authInfo.clientId,
      },
  });

  const server = new McpServer({ name: "acme", version: "1.0.0" });
  sluice.attach(server);
  // #endregion

  // #region access
  const guarded = createSluice({
    storage,
    baseUri: "files://acme/",
    endpoint: "https://mcp.example.com/mcp",
    keys,
    principal: ({ authInfo }) =>
      authInfo && { issuer: "acme", subject: authInfo.clientId, clientId: authInfo.clientId },
    access: (principal, uri) => {
      if (!uri.startsWith("files://acme/drafts/")) return "allow";
      return principal && members.has(principal.subject) ? "allow" : "hide";
    },
  });
  // #endregion

  const presign = async () => ({
    url: "https://acme.s3.eu-west-1.amazonaws.com/report.pdf",
    expiresAt: Date.now() + 60_000,
  });
  const open = createMemoryBackend({ "report.pdf": "%PDF-" });
  const bucket = {
    ...open,
    presign,
    presignOrigins: async () => ["https://acme.s3.eu-west-1.amazonaws.com"],
    describe: async (...call: Parameters<typeof open.describe>) => ({
      ...(await open.describe(...call)),
      size: 2 ** 30 + 1,
    }),
  };
  const options = {
    storage: bucket,
    baseUri: "files://acme/",
    endpoint: "https://mcp.example.com/mcp",
    keys,
    anonymous: true,
  };
  // #region redirect-large
  const large = createSluice({
    ...options,
    delivery: ({ info }) => ((info.size ?? Infinity) > 1024 ** 3 ? "redirect" : "direct"),
    redirectOrigins: "storage",
  });
  // #endregion

  // #region delivery
  const busy = createSluice({
    storage,
    baseUri: "files://acme/",
    endpoint: "https://mcp.example.com/mcp",
    keys,
    stores,
    anonymous: true,
    // large files from a URL that can be resumed and fetched in parallel, small ones at once
    delivery: ({ info }) => ((info.size ?? Infinity) > 64 * 1024 * 1024 ? "downloadUrl" : "direct"),
    grant: { use: "lease", ttlMs: 120_000 },
    limits: { streams: { perPrincipal: 4, perProcess: 128 } },
    audit: (record) => log(JSON.stringify(record)),
  });
  // #endregion

  expect(JSON.stringify(server.server.getCapabilities())).toContain("stream");
  const authInfo = { token: "t", clientId: "bob", scopes: [] };
  const { resources } = (await talkTo(guarded)("modern", "resources/list", { authInfo })).message
    .result;
  expect(resources.map(({ name }: { name: string }) => name)).toEqual(["report.pdf"]);
  const params = { uri: "files://acme/report.pdf" };
  const { slot } = await talkTo(busy)("legacy", "resources/stream", { params });
  expect(slot.reply?.status).toBe(200);
  const redirected = await talkTo(large)("legacy", "resources/stream", { params });
  expect(redirected.slot.reply?.status).toBe(302);
  slot.reply?.transfer?.end({ outcome: "complete", bytes: 4 });
  expect(lines).toHaveLength(1);
});
