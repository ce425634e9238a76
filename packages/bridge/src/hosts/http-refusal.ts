import { SluiceError } from "@sluice/core";

/** An HTTP response that is an error of JSON-RPC. */
export function refuseRequest(
  status: number,
  code: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const error = { code, message };
  const fields = { "cache-control": "no-store", ...headers };
  return Response.json({ jsonrpc: "2.0", id: null, error }, { status, headers: fields });
}

// Words and codes are those of the SDK's transport.

/** The same for a session that never was, is over, or is another caller's. */
export function sessionNotFound(): Response {
  return refuseRequest(404, -32_001, "Session not found");
}

/** The response where there is no room for another session. */
export function sessionsFull(): Response {
  return refuseRequest(503, -32_000, "Too many sessions; try again later", { "retry-after": "10" });
}

/** The response of a bridge that is closed. */
export function bridgeEnds(): Response {
  return refuseRequest(503, -32_000, "The bridge ends");
}

/** The response where the server of a session could not be opened. What went wrong is for the operator. */
export function serverNotOpened(error: unknown): Response {
  const message = SluiceError.is(error) ? error.message : "bridge: the server cannot be opened";
  return refuseRequest(502, -32_000, message);
}
