import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { requireBearerAuth } from "@modelcontextprotocol/express";
import { McpServer, OAuthError, OAuthErrorCode, type AuthInfo } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { openAuditFile, openKeyFile } from "@sluice/server/node";
import { createRedisStores } from "@sluice/state-redis";
import { protect } from "@sluice/storage";
import { createS3Backend } from "@sluice/storage-s3";
import { createHandler } from "@sluice/transport-http";
import { drainServer, hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import { createResume } from "@sluice/resume";
import express from "express";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { connectRedis } from "./connect-redis.ts";
import type { Settings } from "./settings.ts";
import { registerTools } from "./tools.ts";

/** A process that serves. */
export interface Serving {
  readonly port: number;
  /** Stops accepting, lets what runs go on for the drain time, and closes everything. Gives how many answers it cut. */
  drain(): Promise<number>;
}

/** Starts one of the processes. Rejects with what is wrong when something that it needs is not there. */
export async function serve(settings: Settings): Promise<Serving> {
  // #region shared
  const redis = await connectRedis(settings.redis);
  const keys = await openKeyFile({ path: settings.keysFile });
  const audit = await openAuditFile({ path: settings.auditFile });
  const { bucket, prefix, s3Endpoint } = settings;
  const storage = createS3Backend({
    bucket,
    ...(prefix !== undefined && { prefix }),
    ...(s3Endpoint !== undefined && { endpoint: s3Endpoint }),
  });
  const stores = createRedisStores({ redis, durable: settings.redisDurable });
  const perPrincipal = new RateLimiterRedis({
    storeClient: redis,
    keyPrefix: "{sluice}:requests",
    points: settings.requestsPerMinute,
    duration: 60,
  });
  const sluice = createSluice({
    storage,
    baseUri: "files://cluster/",
    endpoint: settings.endpoint,
    clientAddress: 1,
    keys,
    stores,
    principal: ({ authInfo }) => authInfo && principalOf(authInfo.clientId),
    rates: { requests: { perPrincipal } },
    audit,
  });
  // #endregion

  // #region handler
  const createMcp = (): McpServer => {
    const mcp = new McpServer({ name: "cluster", version: "1.0.0" });
    registerTools(mcp, {
      storage: protect(storage),
      sluice,
      keys: keys.keys,
      principalOf,
    });
    return sluice.attach(mcp);
  };
  const resume = createResume();
  const handler = createHandler({ sluice, create: createMcp, resume });
  // #endregion

  const app = express();
  app.disable("x-powered-by");
  app.get("/healthz", (_request, response) => void response.type("text").send("ok\n"));
  app.use("/mcp", (_request, response, next) => {
    response.setHeader("x-served-by", settings.name);
    next();
  });
  app.all(
    "/mcp{/*rest}",
    requireBearerAuth({ verifier: verifierOf(settings.tokens) }),
    toNodeHandler(handler),
  );

  const server = hardenServer(createServer({ connectionsCheckingInterval: 5_000 }, app));
  server.listen(settings.port, settings.host);
  await once(server, "listening");

  return {
    port: (server.address() as AddressInfo).port,
    // #region drain
    async drain() {
      const deadline = { deadlineMs: settings.drainMs };
      const [{ cut }] = await Promise.all([drainServer(server, deadline), resume.close(deadline)]);
      await handler.close();
      redis.disconnect();
      return cut;
    },
    // #endregion
  };
}

function principalOf(subject: string): Principal {
  return { issuer: "cluster", subject, clientId: subject };
}

/** In place of the verifier of an authorization server: a list of tokens. */
function verifierOf(tokens: Settings["tokens"]) {
  return {
    async verifyAccessToken(token: string): Promise<AuthInfo> {
      const subject = tokens.get(token);
      if (subject === undefined) throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown token");
      return { token, clientId: subject, scopes: [], expiresAt: Date.now() / 1_000 + 3_600 };
    },
  };
}
