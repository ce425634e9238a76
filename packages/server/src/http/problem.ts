import { SluiceError } from "@sluice/core";
import { formatContentRange } from "@sluice/core/internal";
import { formatChallenge } from "../faults/rpc-fault.ts";
import { shieldHeaders } from "./byte-headers.ts";
import type { Reply } from "./reply.ts";

/** Why a request to a route of ours failed, where the status alone does not say it. */
export type ProblemReason =
  | "expired"
  | "changed"
  | "too_large"
  | "rate"
  | "range"
  | "draining"
  | "answers"
  | "revision";

/** What else a problem carries. */
export interface ProblemOptions {
  readonly reason?: ProblemReason;
  /** A fixed sentence for the reader of the response, of at most 300 characters. */
  readonly detail?: string;
  /** Further headers, names and values in turn. */
  readonly headers?: readonly string[];
}

const titles: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  410: "Gone",
  412: "Precondition Failed",
  413: "Content Too Large",
  416: "Range Not Satisfiable",
  421: "Misdirected Request",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};

/**
 * An error response of at most 512 bytes (RFC 9457). The same status and reason give the same
 * bytes, whatever was behind it.
 */
export function problem(
  status: number,
  { reason, detail, headers = [] }: ProblemOptions = {},
): Reply {
  // members of undefined are left out of JSON
  const title = titles[status] ?? "Error";
  const text = JSON.stringify({ type: "about:blank", title, status, reason, detail });
  return {
    status,
    headers: [
      "Content-Type",
      "application/problem+json",
      "Content-Length",
      String(text.length),
      ...headers,
      ...shieldHeaders,
    ],
    text,
  };
}

/** The response to a request to a route of ours that failed with an error. */
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
