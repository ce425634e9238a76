import type { ServerResponse } from "node:http";
import {
  bearerAuthChallengeResponse,
  verifyBearerToken,
  type VerifyBearerTokenOptions,
} from "@modelcontextprotocol/server";
import type { NodeRequest } from "./incoming-request.ts";

/**
 * Makes the middleware that verifies bearer tokens without Express: the SDK decides, and words the challenge. Rejects with
 * faults of the verifier. Throws a `TypeError` without a verifier.
 */
export function createBearerCheck(
  options: VerifyBearerTokenOptions,
): (req: NodeRequest, res: ServerResponse, next: () => void) => Promise<void> {
  const { verifier } = options as Partial<VerifyBearerTokenOptions>;
  if (typeof verifier?.verifyAccessToken !== "function")
    throw new TypeError("bearer: pass a verifier: { verifier: { verifyAccessToken } }");
  return async (req, res, next) => {
    try {
      req.auth = await verifyBearerToken(req.headers.authorization, options);
    } catch (error) {
      const refusal = bearerAuthChallengeResponse(error, options);
      if (refusal.status >= 500) throw error;
      res.writeHead(refusal.status, Object.fromEntries(refusal.headers));
      res.end(await refusal.text());
      return;
    }
    next();
  };
}
