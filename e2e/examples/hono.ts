// The Hono hosts of docs/guides/deploy/open-paths.md and docs/guides/server/runtimes.md: mounted by e2e/scenarios/doors.test.ts
// and e2e/scenarios/foreign.test.ts.
import type { OAuthTokenVerifier } from "@modelcontextprotocol/server";
import type { SluiceHandler } from "@sluice/transport-http";

/** Everything that needs a bearer is authenticated; Sluice says what does. */
export async function createGuarded(handler: SluiceHandler, verifier: OAuthTokenVerifier) {
  // #region guarded
  const { Hono } = await import("hono");
  const { requireBearerAuth } = await import("@modelcontextprotocol/server");

  const app = new Hono();
  const authenticate = requireBearerAuth({ verifier });
  app.all("*", async (c) => {
    const request = c.req.raw;
    if (!handler.needsBearer(request)) return handler.fetch(request);
    const found = await authenticate(request);
    return "token" in found ? handler.fetch(request, { authInfo: found }) : found;
  });
  // #endregion
  return app;
}

/** The handler beside other routes of an app, for servers without access tokens. */
export async function createOpen(handler: SluiceHandler) {
  // #region open
  const { Hono } = await import("hono");

  const app = new Hono();
  app.get("/", (c) => c.text("your own routes"));
  app.all("/mcp/*", (c) => handler.fetch(c.req.raw)); // and /mcp itself
  // #endregion
  return app;
}
