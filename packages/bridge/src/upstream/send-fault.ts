import { SdkError, SdkErrorCode, type JSONRPCErrorResponse } from "@modelcontextprotocol/client";
import { isRedirect } from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import { parseMediaType } from "@sluice/core/internal";
import { proxyOrigin } from "@sluice/core/internal/node";
import { codes, isMembers } from "../messages/messages.ts";
import { verdictOf } from "./response-status.ts";
import { wordsOf, wordsWithCause } from "../messages/error-words.ts";

/** Why a message did not get to the server, and what follows from it. */
export type SendFault =
  /** The server answered with an error of JSON-RPC in a response with a status of failure. */
  | {
      readonly kind: "answered";
      readonly error: JSONRPCErrorResponse["error"];
      readonly status: number;
    }
  /** The server does not know the session any more: nothing was done. */
  | { readonly kind: "session-gone"; readonly reason: string }
  /** The server was not reached: nothing was done. */
  | { readonly kind: "unreached"; readonly reason: string }
  /** The server refused it: nothing was done, and another try gives the same. */
  | { readonly kind: "refused"; readonly reason: string; readonly status?: number }
  /**
   * The message was sent, and what the server did is unknown. `isAway`: a proxy did not reach the server, which may be back
   * soon.
   */
  | { readonly kind: "lost"; readonly reason: string; readonly isAway?: boolean };

/** A message that was not sent, or whose answer cannot come. */
export class SendError extends Error {
  override readonly name = "SendError";
  readonly fault: SendFault;

  constructor(fault: SendFault) {
    super("reason" in fault ? fault.reason : fault.error.message);
    this.fault = fault;
  }
}

const unreachedCodes: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** What people can do about the most frequent of them. */
const unreachedWords: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there (ECONNREFUSED); start the server, or check host and port",
  ENOTFOUND: "the name has no address (ENOTFOUND); check its spelling, or the DNS",
};

/** Reads what a transport rejected with. `inSession`: the message was sent in a session of 2025-11-25 or older. */
export function sendFaultOf(thrown: unknown, inSession: boolean): SendFault {
  const data = isMembers(thrown) ? thrown["data"] : undefined;
  const status = isMembers(data) ? data["status"] : undefined;
  if (typeof status === "number") {
    const text = isMembers(data) ? data["text"] : undefined;
    return answeredFault(status, typeof text === "string" ? text : "", inSession);
  }
  // `fetch` wraps what a connection failed with
  const sluiceError = [thrown, thrown instanceof Error && thrown.cause].find((error) =>
    SluiceError.is(error),
  );
  if (sluiceError?.code === "unavailable")
    return { kind: "unreached", reason: sluiceError.message };
  if (sluiceError?.origin === proxyOrigin) return { kind: "refused", reason: sluiceError.message };
  const code = innermostCode(thrown);
  if (unreachedCodes.has(code))
    return { kind: "unreached", reason: unreachedWords[String(code)] ?? String(code) };
  const unread = unreadableWords(thrown);
  // the server took the call
  if (unread !== undefined || sluiceError?.code === "too_large")
    return { kind: "lost", reason: unread ?? sluiceError!.message };
  const reason = reasonOf(thrown);
  const name = thrown instanceof Error ? thrown.name : "";
  // faults of signing in and of the transport's own checks come before or instead of a response
  if (name === "UnauthorizedError" || name === "SluiceError" || name.startsWith("OAuth"))
    return { kind: "refused", reason };
  return { kind: "lost", reason };
}

/**
 * Says what came where the SDK could read no message of JSON-RPC: its own errors are those of a parser, and quote the body.
 * `undefined` for any other error.
 */
export function unreadableWords(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const what = (): string | undefined => {
    if (thrown instanceof SyntaxError) return "is not JSON";
    if ("issues" in thrown) return "is not a message of JSON-RPC";
    if (!SdkError.isInstance(thrown) || thrown.code !== SdkErrorCode.ClientHttpUnexpectedContent)
      return undefined;
    const data = isMembers(thrown.data) ? thrown.data["contentType"] : undefined;
    const type = parseMediaType(typeof data === "string" ? data : null)?.essence ?? "";
    // as long as registered names may be (RFC 6838)
    return `has ${type !== "" && type.length <= 255 ? `the type ${type}` : "no media type"}, not application/json`;
  };
  const words = what();
  return words && `what it sent ${words}; check that the URL is that of its MCP endpoint`;
}

/** `fetch` itself says only that it failed; its cause says why. */
function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown instanceof TypeError ? wordsWithCause(thrown) : wordsOf(thrown);
}

function answeredFault(status: number, text: string, inSession: boolean): SendFault {
  const error = rpcErrorIn(text);
  const isOfMethod = error !== undefined && methodCodes.has(error.code);
  const verdict = verdictOf({ status, text: isOfMethod ? "" : text, inSession });
  const reason = isRedirect(status)
    ? `HTTP ${status}, a redirect; use the URL that it leads to, which sluice doctor tells`
    : `HTTP ${status}`;
  if (verdict === "session-gone") return { kind: verdict, reason };
  if (error) return { kind: "answered", error, status };
  if (verdict === "unreached") return { kind: verdict, reason };
  if (verdict === "refused") return { kind: verdict, reason, status };
  return { kind: "lost", reason, isAway: verdict === "cut-off" };
}

/** Errors of what was called: their words may name a session of any kind. */
const methodCodes: ReadonlySet<number> = new Set([
  codes.methodNotFound,
  codes.invalidParams,
  codes.internal,
]);

function rpcErrorIn(text: string): JSONRPCErrorResponse["error"] | undefined {
  try {
    const body: unknown = JSON.parse(text);
    const error = isMembers(body) ? body["error"] : undefined;
    if (!isMembers(error)) return undefined;
    const { code, message } = error;
    if (typeof code !== "number" || typeof message !== "string") return undefined;
    return error as unknown as JSONRPCErrorResponse["error"];
  } catch {
    return undefined;
  }
}

function innermostCode(thrown: unknown): unknown {
  let error = thrown;
  // a cause of a cause of a cause, at most
  for (let depth = 0; depth < 4 && error instanceof Error; depth++) {
    const code = (error as NodeJS.ErrnoException).code;
    if (unreachedCodes.has(code)) return code;
    const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [error.cause];
    error = first;
  }
  return undefined;
}
