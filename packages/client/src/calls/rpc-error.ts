import { definedMembers, SluiceError } from "@sluice/core";
import { errorTable, type ErrorRow } from "@sluice/core/wire";

/**
 * What an SDK client rejected with, as an error of ours: by `data.reason` first, then by the
 * number in the spelling of either revision. The server's words are only in `cause`.
 */
export function rpcError(what: string, error: unknown): SluiceError {
  if (SluiceError.is(error)) return error;
  const { code, data, name } = (error ?? {}) as { code?: unknown; data?: unknown; name?: unknown };
  const { reason, retryAfterMs, uri } = (data ?? {}) as Record<string, unknown>;
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
  const row =
    errorTable.find((candidate) => candidate.reason === reason) ?? rowOf(code, uri !== undefined);
  if (!row) return new SluiceError("unavailable", `client: ${what}: the call failed`, options);
  return new SluiceError(row.code, `client: ${what}: ${row.message}${hints[row.reason]}`, options);
}

/** Modern spells "not found" as invalid params with the URI beside it; −32603 stands for several rows. */
function rowOf(code: unknown, namesUri: boolean): ErrorRow | undefined {
  const reason =
    code === -32602
      ? namesUri
        ? "not_found"
        : "invalid"
      : code === -32603
        ? "internal"
        : undefined;
  return errorTable.find((row) =>
    reason === undefined ? row.legacy === code || row.modern === code : row.reason === reason,
  );
}

const hints: Readonly<Record<ErrorRow["reason"], string>> = {
  not_found: "; see resources/list for what there is",
  stream_unsupported: "; use resources/read for this resource",
  too_large: "; raise maxStreamSize to accept it",
  forbidden: "; ask for access",
  busy: "",
  client_capability: "; pass streamingCapabilities() to the client",
  invalid: "; check the resource URI",
  internal: " at the server",
  interrupted: "",
};

// SDK version 1 has a number for its own timeout, version 2 a word
function isTimeout(code: unknown): boolean {
  return code === -32001 || code === "REQUEST_TIMEOUT";
}
