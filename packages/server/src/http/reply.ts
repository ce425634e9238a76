import { SluiceError, type Source } from "@sluice/core";
import { definedMembers, discardSource, formatContentRange } from "@sluice/core/internal";
import { formatChallenge } from "../faults/rpc-fault.ts";
import { shieldHeaders } from "./byte-headers.ts";

/** An HTTP answer as plain values: any transport can send it, and none has to build web objects for it. */
export interface Reply {
  readonly status: number;
  /** Names and values in turn, as `writeHead` of Node takes them. All of it is visible ASCII. */
  readonly headers: readonly string[];
  /** The whole body, when it is a short text. */
  readonly text?: string;
  /** The body, when it is bytes of a resource. The receiver of a reply must send these or end them. */
  readonly transfer?: ReplyTransfer;
}

/** Bytes on their way out. */
export interface ReplyTransfer {
  /** Read it once, as `file`, `bytes` or `body`. */
  readonly source: Source;
  /** Bytes that were promised as `Content-Length`; absent when the size is unknown. */
  readonly promisedBytes?: number;
  /** Says how it went. Call it once, after the last byte or instead of it; later calls change nothing. */
  end(result: TransferResult): void;
}

/** How a transfer went. */
export interface TransferResult {
  /**
   * `complete`: every byte was handed over. `offloaded`: a proxy in front sends them, and this
   * process does not see how that goes. `aborted`: the receiver went away. `failed`: the source broke.
   */
  readonly outcome: "complete" | "offloaded" | "aborted" | "failed";
  /** Bytes handed to the network, or left to the proxy. */
  readonly bytes: number;
  /** What broke. For logs only. */
  readonly error?: unknown;
}

/**
 * Compares the bytes of a source with those it promised, if it did. Throws `corrupt` for too many and, once it has
 * ended, `interrupted` for too few.
 */
export function ensurePromisedBytes(
  bytes: number,
  promised: number | undefined,
  { hasEnded }: { readonly hasEnded: boolean },
): void {
  if (promised === undefined) return;
  if (bytes > promised)
    throw new SluiceError(
      "corrupt",
      `http: the source gave more than its promised ${promised} bytes`,
    );
  if (hasEnded && bytes < promised)
    throw new SluiceError("interrupted", `http: the source ended at ${bytes} of ${promised} bytes`);
}

/** Discards what a reply would have sent. */
export function discardReply(reply: Reply, error?: unknown): void {
  const { transfer } = reply;
  if (!transfer) return;
  void discardSource(transfer.source, error);
  transfer.end({ outcome: "aborted", bytes: 0, ...definedMembers({ error }) });
}

/** Why a request below the endpoint failed, where the status alone does not say it. */
export type ProblemReason =
  | "expired"
  | "changed"
  | "too_large"
  | "rate"
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
  // JSON.stringify leaves out undefined members
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

/** Tells the reader of a download URL that it was made for another version of the file. */
export const changedText = "The file has changed since this URL was made. Ask for a new one.";

/** The response to a failed request below the endpoint. */
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
      return problem(410, {
        reason: "expired",
        detail: "This URL has expired. Ask for a new one.",
      });
    case "precondition_failed":
      return problem(410, { reason: "changed", detail: changedText });
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

/** A page for people, which no shared cache keeps. `policy`: its `Content-Security-Policy`. */
export function pageReply(text: string, policy: string): Reply {
  const length = String(new TextEncoder().encode(text).length);
  const type = ["Content-Type", "text/html; charset=utf-8", "Content-Length", length];
  return { status: 200, headers: [...type, ...pageHeaders(policy)], text };
}

/** Headers of a page, and of what leads away from it, under a `Content-Security-Policy`. */
export function pageHeaders(policy: string): readonly string[] {
  return ["Content-Security-Policy", policy, ...pageShield];
}

const pageShield: readonly string[] = [
  "Cache-Control",
  "private, no-store",
  "X-Content-Type-Options",
  "nosniff",
  "Cross-Origin-Resource-Policy",
  "same-origin",
  "Cross-Origin-Opener-Policy",
  "same-origin",
  "Referrer-Policy",
  "no-referrer",
  "X-Robots-Tag",
  "noindex, nofollow",
];
