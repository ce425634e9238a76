import { httpError, SluiceError } from "@sluice/core";
import { STREAM_METHOD } from "@sluice/core/wire";
import { rpcError } from "../calls/rpc-error.ts";
import type { StreamCall } from "../calls/stream-calls.ts";

/** What the SDK's client rejected a call with, as an error of ours. */
export function refusalOf({ uri, answer }: StreamCall, error: unknown): SluiceError {
  const what = `${STREAM_METHOD} ${JSON.stringify(uri)}`;
  const { status } = answer ?? {};
  if (status === 401 || status === 403) return httpError(what, status, { cause: error });
  // SDK version 1 has a number for it, version 2 a word
  const { code } = (error ?? {}) as { code?: unknown };
  if (!answer && (code === -1 || code === "CLIENT_HTTP_UNEXPECTED_CONTENT"))
    return new SluiceError(
      "protocol",
      `client: ${what}: the server sent bytes that the SDK cannot read; give the transport { fetch: withStreaming() }`,
      { cause: error },
    );
  return rpcError(what, error);
}
