import { formatContentRange, SluiceError } from "@sluice/core";
import { formatChallenge } from "../access/sign-in-fault.ts";
import { problem } from "./problem.ts";
import type { Reply } from "./reply.ts";

/** The answer to a request to a route of ours that failed with an error. */
export function problemOf(error: unknown, resourceMetadataUrl?: string): Reply {
  if (!SluiceError.is(error)) return problem(500);
  const { retryAfterMs = 1_000 } = error;
  const retry = ["Retry-After", String(Math.max(1, Math.ceil(retryAfterMs / 1_000)))];
  switch (error.code) {
    case "not_found":
    case "permission_denied":
    case "unsupported":
    case "invalid_argument":
      return problem(404);
    case "unauthenticated":
      return problem(401, { headers: ["WWW-Authenticate", formatChallenge(resourceMetadataUrl)] });
    case "expired":
      return problem(410, { reason: "expired" });
    case "precondition_failed":
      return problem(410, { reason: "changed" });
    case "range_not_satisfiable":
      return problem(416, {
        headers: ["Content-Range", formatContentRange({ size: error.size ?? 0 })],
      });
    case "throttled":
      return problem(429, { reason: "rate", headers: retry });
    case "unavailable":
      return problem(503, { headers: retry });
    case "timeout":
      return problem(504);
    case "interrupted":
    case "corrupt":
      return problem(502);
    default:
      return problem(500);
  }
}
