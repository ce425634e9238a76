import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { httpError } from "@sluice/core/internal";
import { causesOf } from "./either-revision.ts";

/** The error with which a client of the SDK did not connect, as one of ours. The server's words are only in its cause. */
export function connectError({ origin }: URL, error: unknown): SluiceError {
  const faults = causesOf(error);
  const options = { cause: error };
  const ours = faults.find((fault) => SluiceError.is(fault));
  if (SluiceError.is(ours))
    return ours === error ? ours : new SluiceError(ours.code, ours.message, options);
  const status = faults.map(({ data }) => data?.status).find((at) => typeof at === "number");
  if (status === 404 || status === 405)
    return new SluiceError(
      "not_found",
      `client: connect: no MCP server answers at this path of ${origin} (HTTP ${status}); check the endpoint`,
      options,
    );
  if (faults.some(({ name }) => name === "UnauthorizedError"))
    return httpError(`connect to ${origin}`, 401, options);
  if (status !== undefined) return httpError(`connect to ${origin}`, status, options);
  const row = faults.map((fault) => codes.get(fault.code)).find((found) => found !== undefined);
  const [code, hint] = row ?? (["unavailable", "could not be reached"] as const);
  return new SluiceError(code, `client: connect: ${origin} ${hint}`, options);
}

type StatusFault = readonly [SluiceErrorCode, string];

const codes: ReadonlyMap<unknown, StatusFault> = new Map<unknown, StatusFault>([
  ["CLIENT_HTTP_UNEXPECTED_CONTENT", ["protocol", "is not an MCP server; check the endpoint"]],
  ["REQUEST_TIMEOUT", ["timeout", "did not answer in time"]],
]);
