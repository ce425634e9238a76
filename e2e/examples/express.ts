// The Express hosts of docs/guides/deploy/open-paths.md: mounted by e2e/scenarios/doors.test.ts.
import type { OAuthTokenVerifier } from "@modelcontextprotocol/express";
import type { SluiceHandler } from "@sluice/transport-http";

/** Everything that needs a bearer is authenticated; Sluice says what does. */
export async function createGuarded(handler: SluiceHandler, verifier: OAuthTokenVerifier) {
  // #region guarded
  const { default: express } = await import("express");
  const { requireBearerAuth } = await import("@modelcontextprotocol/express");
  const { toNodeHandler } = await import("@sluice/transport-http/node");

  const app = express();
  app.use(toNodeHandler(handler, { authenticate: requireBearerAuth({ verifier }) }));
  // #endregion
  return app;
}

/** Four paths are left open before middleware that asks for a token everywhere else. */
export async function createLeftOpen(
  handler: SluiceHandler,
  verifier: OAuthTokenVerifier,
  base: string,
) {
  const { default: express } = await import("express");
  const { requireBearerAuth } = await import("@modelcontextprotocol/express");
  const { toNodeHandler } = await import("@sluice/transport-http/node");
  // #region left-open
  const app = express();
  const serve = toNodeHandler(handler);
  const open = ["d", "u", "uploads", "upload-page"].map((name) => `${base}/${name}`);
  app.use(open, serve);
  app.use(requireBearerAuth({ verifier }), serve);
  // #endregion
  return app;
}
