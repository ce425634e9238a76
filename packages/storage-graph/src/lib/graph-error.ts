import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, parseRetryAfter } from "@sluice/core/internal";

/** The rest of a response whose body was read. */
export interface GraphAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed JSON; `undefined` when there was none. */
  readonly body: unknown;
}

/** Codes of Graph and OneDrive in lower case. */
const codes: Readonly<Record<string, SluiceErrorCode>> = {
  itemnotfound: "not_found",
  accessdenied: "permission_denied",
  malwaredetected: "permission_denied",
  invalidauthenticationtoken: "unauthenticated",
  unauthenticated: "unauthenticated",
  activitylimitreached: "throttled",
  quotalimitreached: "no_space",
  insufficientstorage: "no_space",
  maxfilesizeexceeded: "too_large",
  resourcemodified: "precondition_failed",
  namealreadyexists: "precondition_failed",
  notsupported: "unsupported",
  pathistoolong: "invalid_argument",
  invalidpath: "invalid_argument",
  namecontainsinvalidcharacters: "invalid_argument",
  invalidrequest: "invalid_argument",
  servicenotavailable: "unavailable",
  resourcelocked: "unavailable",
};

const statuses: Readonly<Record<number, SluiceErrorCode>> = {
  400: "invalid_argument",
  401: "unauthenticated",
  403: "permission_denied",
  404: "not_found",
  405: "unsupported",
  409: "precondition_failed",
  410: "not_found",
  412: "precondition_failed",
  413: "too_large",
  423: "unavailable",
  507: "no_space",
};

/** SharePoint says "too much" with any of these; 509 is its bandwidth limit. */
const throttling = new Set([429, 503, 509]);

const sentences: Partial<Record<SluiceErrorCode, string>> = {
  not_found: "it is not there",
  permission_denied: "the service refuses access; check the permissions of the application",
  unauthenticated: "the service refuses the token; check the credential and its audience",
  invalid_argument: "the service rejects the name or request",
  unsupported: "it has no bytes to read",
  precondition_failed: "it is not the version that was asked for, or there already",
  too_large: "the service accepts no file of that size",
  no_space: "the drive is full",
  throttled: "the service asks for a pause",
  unavailable: "the service failed; try again later",
};

/**
 * A refused request as a {@link SluiceError}. The deepest code of Graph that is known decides,
 * then the status; texts of the service are never looked at. Neither message nor cause holds a URL.
 */
export function toSluiceError(answer: GraphAnswer, operation: string): SluiceError {
  const { status, headers } = answer;
  const sentCodes = codesOf(answer.body);
  const knownCode = sentCodes.toReversed().find((name) => Object.hasOwn(codes, name.toLowerCase()));
  const code = throttling.has(status)
    ? "throttled"
    : status === 401
      ? "unauthenticated"
      : ((knownCode === undefined ? undefined : codes[knownCode.toLowerCase()]) ??
        statuses[status] ??
        (status >= 500 ? "unavailable" : "protocol"));
  const requestId = textOf(headers["request-id"]);
  const cause = new Error(
    ["the service answered", status, ...sentCodes, requestId && `(request-id ${requestId})`]
      .filter(Boolean)
      .join(" "),
  );
  const retryAfterMs = parseRetryAfter(textOf(headers["retry-after"]), Date.now());
  return new SluiceError(code, `${operation}: ${sentences[code] ?? `the answer was ${status}`}`, {
    cause,
    ...definedMembers({ retryAfterMs: code === "throttled" ? retryAfterMs : undefined }),
  });
}

/**
 * The facts for a log about a response that broke or could not be read, without its content: parsers
 * put pieces of it into their errors, and there are URLs in it that carry permission.
 */
export function createCause(error: unknown): Error {
  const { name, code } = (error ?? {}) as { readonly name?: unknown; readonly code?: unknown };
  return new Error([name, code].filter((part) => typeof part === "string").join(" "));
}

/** A header that is there once. */
export function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

/** The codes of an error body from the outside in; the inner ones say more. */
function codesOf(body: unknown): string[] {
  const sentCodes: string[] = [];
  let layer = (body as { error?: unknown } | undefined)?.error;
  for (let depth = 0; depth < 8 && typeof layer === "object" && layer !== null; depth++) {
    const { code, innererror, innerError } = layer as Record<string, unknown>;
    if (typeof code === "string" && /^[\w.-]{1,80}$/.test(code)) sentCodes.push(code);
    layer = innererror ?? innerError;
  }
  return sentCodes;
}
