import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import { isRedirect } from "@sluice/client/internal";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { errorTable, type Reason, tlsFault } from "@sluice/core/internal";
import { answerOrigin, causesOf, tlsOrigin, waitHint } from "../terminal/failure.ts";

/** What a call to a server needs besides the call itself. */
export interface ServerCall {
  /** Address of the server, as the user gave it. */
  readonly server: string;
  /** Ends the run. */
  readonly signal: AbortSignal;
}

/** Runs a call of the SDK's client; what it throws becomes a `SluiceError` that names the server. */
export async function callServer<T>(
  { server, signal }: ServerCall,
  call: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  try {
    return await call();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw sluiceErrorOf(server, error);
  }
}

/** An SDK hides a fault of its fetch below its own errors. */
function sluiceErrorOf(server: string, error: unknown): SluiceError {
  const url = new URL(server);
  const knownError =
    causesOf(error).find((cause) => SluiceError.is(cause)) ?? tlsFault("client", url, error);
  if (knownError) return knownError;
  const answer = causesOf(error).find((cause) => cause instanceof ProtocolError);
  // what knows no method of MCP may be another service that speaks JSON-RPC
  if (answer && answer.code !== methodNotFound) return answeredError(server, answer);
  if (statusOf(error) === 400 && certificateText.test(String(error)))
    return new SluiceError("unauthenticated", `${server} requires a certificate of its clients`, {
      cause: error,
      origin: tlsOrigin,
    });
  const [code, what] = describe(error, url);
  const advice = pathAdvice(url);
  if (code === "protocol" && statusOf(error) !== undefined && advice !== undefined)
    return new SluiceError(code, `${server} ${what}; ${advice}`, {
      cause: error,
      origin: answerOrigin,
    });
  return new SluiceError(code, `${server} ${what}`, { cause: error });
}

const methodNotFound: number = ProtocolErrorCode.MethodNotFound;

/** What a server answered, in its words: the cause is in its log. */
function answeredError(server: string, answer: ProtocolError): SluiceError {
  const text = answer.message.slice(0, maxText);
  const { retryAfterMs } = Object(answer.data) as { readonly retryAfterMs?: unknown };
  const waitMs = typeof retryAfterMs === "number" ? retryAfterMs : undefined;
  const advice = waitMs === undefined ? "its log says why" : waitHint(waitMs);
  return new SluiceError(codeOf(answer), `${server} answered: ${text}; ${advice}`, {
    cause: answer,
    retryAfterMs: waitMs,
    origin: answerOrigin,
  });
}

/** By `data.reason` of a server with Sluice, else by the number. */
function codeOf({ code, data }: ProtocolError): SluiceErrorCode {
  const { reason } = (data ?? {}) as { readonly reason?: unknown };
  if (typeof reason === "string" && Object.hasOwn(errorTable, reason))
    return errorTable[reason as Reason].code;
  if (code === errorTable.not_found.legacy) return "not_found";
  return code === errorTable.internal.modern ? "internal" : "protocol";
}

/** What to do about a path that is not the endpoint's, as far as it tells. */
function pathAdvice({ origin, pathname }: URL): string | undefined {
  const path = pathname.replace(/\/$/, "");
  if (path.endsWith("/sse"))
    return `/sse is the path of the older transport, HTTP with SSE: try ${origin}${path.slice(0, -4)}/mcp, or run sluice bridge --http ${origin}${path} and pass the URL that it prints`;
  return path === pathname || path === "" ? undefined : `try ${origin}${path} without the slash`;
}

const maxText = 200;

function describe(error: unknown, { protocol }: URL): readonly [SluiceErrorCode, string] {
  const status = statusOf(error);
  if (status === 401) return ["unauthenticated", "requires a valid token"];
  if (status === 403) return ["permission_denied", "denies access"];
  if (status === 429) return ["throttled", "is busy"];
  if (status !== undefined && status >= 500) return ["unavailable", `answers HTTP ${status}`];
  if (status !== undefined) {
    const what = isRedirect(status) ? "a redirect (sluice doctor tells where it leads)" : "not MCP";
    return ["protocol", `answers HTTP ${status}, ${what}`];
  }
  const errno = networkErrno(error);
  if (errno !== undefined && protocol === "http:" && cutCodes.test(errno))
    return ["unavailable", `disconnects (${errno}): is it an https: address?`];
  if (errno !== undefined && protocol === "https:" && cutCodes.test(errno))
    return [
      "unavailable",
      `cannot be reached (${errno}), or requires a certificate of its clients (--cert)`,
    ];
  if (errno !== undefined) return ["unavailable", `cannot be reached (${errno})`];
  if ((error as { code?: unknown }).code === "REQUEST_TIMEOUT")
    return ["timeout", "does not answer"];
  const message = error instanceof Error ? error.message : String(error);
  return ["protocol", `does not speak MCP (${message.slice(0, maxText)})`];
}

/** What nginx answers to a client without a certificate. */
const certificateText = /No required SSL certificate was sent/;

/** The result of plain HTTP to a port that speaks TLS. */
const cutCodes = /^(?:HPE_[A-Z_]+|HTTPParserError|UND_ERR_SOCKET|ECONNRESET|EPIPE)$/;

/** HTTP status that the SDK put into one of its errors. */
function statusOf(error: unknown): number | undefined {
  const data = (error as { data?: { status?: unknown } }).data;
  return typeof data?.status === "number" ? data.status : undefined;
}

/**
 * Code of the network fault below an error, such as ECONNREFUSED; for a response other than HTTP perhaps only its name.
 */
function networkErrno(error: unknown): string | undefined {
  for (const cause of causesOf(error)) {
    const { code } = cause as NodeJS.ErrnoException;
    if (typeof code === "string" && /^(E[A-Z]+|UND_ERR_[A-Z_]+|HPE_[A-Z_]+)$/.test(code))
      return code;
    // on Node 24 such a fault has a name and no code
    if (cause.name === "HTTPParserError") return cause.name;
    if (cause instanceof AggregateError && cause.errors[0]) return networkErrno(cause.errors[0]);
  }
  return undefined;
}
