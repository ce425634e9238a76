// The server of docs/guides/server/roles.md: run by e2e/scenarios/roles.test.ts.
// #region verify
import { OAuthError, OAuthErrorCode, type OAuthTokenVerifier } from "@modelcontextprotocol/server";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { z } from "zod";

const endpoint = process.env.PUBLIC_URL ?? "http://127.0.0.1:3000/mcp";
const issuer = process.env.ISSUER ?? "https://id.hospital.example";
const issuerKeys = createRemoteJWKSet(new URL(`${issuer}/jwks.json`));
const accessToken = z.object({
  sub: z.string().min(1),
  client_id: z.string(),
  scope: z.string(),
  exp: z.number(),
});

const verifier: OAuthTokenVerifier = {
  async verifyAccessToken(token) {
    try {
      const checks = { issuer, audience: endpoint, typ: "at+jwt", algorithms: ["ES256"] };
      const { payload } = await jwtVerify(token, issuerKeys, checks);
      const { client_id: clientId, scope, exp: expiresAt } = accessToken.parse(payload);
      return { token, clientId, scopes: scope.split(" "), expiresAt, extra: payload };
    } catch {
      throw new OAuthError(OAuthErrorCode.InvalidToken, "the access token is not valid here");
    }
  },
};
// #endregion

// #region rule
import { createSluice, type AccessRule } from "@sluice/server";
import { openAuditFile } from "@sluice/server/node";
import { createFsBackend } from "@sluice/storage-fs";

const investigator = z.object({ role: z.literal("PI"), approved_trials: z.array(z.string()) });

/** A principal investigator may use the trials that are approved for it. For other callers nothing exists. */
const access: AccessRule = (principal, uri) => {
  const { data } = investigator.safeParse(principal?.claims);
  const { hostname: trial } = new URL(uri); // of hipaa://trial-OncoDrug-734/genomics.parquet
  return data?.approved_trials.includes(trial) ? "allow" : "hide";
};

const sluice = createSluice({
  storage: createFsBackend({ root: "./trials" }), // a folder for each trial
  baseUri: "hipaa://",
  endpoint,
  keys: process.env.SLUICE_KEYS ?? "ephemeral",
  principal: ({ authInfo }) =>
    authInfo && { issuer, subject: String(authInfo.extra?.sub), clientId: authInfo.clientId },
  access,
  audit: await openAuditFile({ path: "./audit.log" }),
});
// #endregion

// #region serve
import { McpServer } from "@modelcontextprotocol/server";
import { serve } from "@sluice/transport-http/node";

const create = () => sluice.attach(new McpServer({ name: "trials", version: "1.0.0" }));
await serve(sluice, create, { bearer: { verifier }, port: Number(process.env.PORT ?? 3000) });
// #endregion
