import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  type ErrorRow,
  errorTable,
  httpError,
  type Reason,
} from "@sluice/core/internal";
import type { StreamCall } from "../calls/stream-calls.ts";

/** The error with which the SDK's client rejected a call, as one of ours. */
export function refusalOf({ method, uri, answer }: StreamCall, error: unknown): SluiceError {
  const what = `${method} ${JSON.stringify(uri)}`;
  const { status } = answer ?? {};
  if (status === 401 || status === 403) return httpError(what, status, { cause: error });
  // SDK version 1 has a number for it, version 2 a word
  const { code } = (error ?? {}) as { code?: unknown };
  if (!answer && (code === -1 || code === "CLIENT_HTTP_UNEXPECTED_CONTENT"))
    return new SluiceError(
      "protocol",
      `client: ${what}: the server sent bytes that the SDK cannot read; give the transport createStreaming().fetch`,
      { cause: error },
    );
  return rpcError(what, error);
}

/**
 * An SDK client's rejection as an error of ours: by `data.reason` first, then by the number in the spelling of either
 * revision. The server's words are only in `cause`.
 */
function rpcError(what: string, error: unknown): SluiceError {
  if (SluiceError.is(error)) return error;
  const { code, data, name } = (error ?? {}) as { code?: unknown; data?: unknown; name?: unknown };
  const { reason: said, retryAfterMs, uri } = (data ?? {}) as Record<string, unknown>;
  const isWait = typeof retryAfterMs === "number" && retryAfterMs >= 0;
  const options = definedMembers({
    cause: error,
    retryAfterMs: isWait ? retryAfterMs : undefined,
  });
  if (isTimeout(code))
    return new SluiceError(
      "timeout",
      `client: ${what}: the server did not answer in time`,
      options,
    );
  if (name === "UnauthorizedError" || code === 401)
    return new SluiceError("unauthenticated", `client: ${what}: sign in again`, options);
  if (code === -32601)
    return new SluiceError(
      "unsupported",
      `client: ${what}: the server has no resources/stream; use resources/read`,
      options,
    );
  const reason = isReason(said) ? said : reasonOf(code, uri !== undefined);
  if (!reason) return new SluiceError("unavailable", `client: ${what}: the call failed`, options);
  const row = errorTable[reason];
  return new SluiceError(row.code, `client: ${what}: ${row.message}${hints[reason]}`, options);
}

/** Modern spells "not found" as invalid params with the URI; −32603 stands for several rows. */
function reasonOf(code: unknown, namesUri: boolean): Reason | undefined {
  if (code === -32602) return namesUri ? "not_found" : "invalid";
  if (code === -32603) return "internal";
  const rows = Object.entries(errorTable) as [Reason, ErrorRow][];
  return rows.find(([, row]) => row.legacy === code || row.modern === code)?.[0];
}

function isReason(reason: unknown): reason is Reason {
  return typeof reason === "string" && Object.hasOwn(errorTable, reason);
}

const hints: Readonly<Record<Reason, string>> = {
  not_found: "; see resources/list for what there is",
  stream_unsupported: "; use resources/read for this resource",
  too_large: "; raise maxStreamBytes to accept it",
  forbidden: "; ask for access",
  busy: "",
  client_capability: "; give the client createStreaming().capabilities",
  invalid: "; check the resource URI",
  internal: " at the server",
  interrupted: "",
};

// SDK version 1 has a number for its own timeout, version 2 a word
function isTimeout(code: unknown): boolean {
  return code === -32001 || code === "REQUEST_TIMEOUT";
}
