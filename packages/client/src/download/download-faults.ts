import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, type Lateness } from "@sluice/core/internal";

/** True for a fault of the network, which another try may mend. */
export function isNetworkFault(error: unknown): boolean {
  return SluiceError.is(error) && networkCodes.has(error.code);
}

const networkCodes: ReadonlySet<SluiceErrorCode> = new Set([
  "interrupted",
  "unavailable",
  "timeout",
]);

/** The end of a transfer that failed as `code`. `fault` is what happened last. */
export function failureOf(
  uri: string,
  {
    code,
    retryAfterMs,
  }: { readonly code: SluiceErrorCode; readonly retryAfterMs?: number | undefined },
  fault: unknown,
): SluiceError {
  // what happened last says more than that it happened too often
  if (SluiceError.is(fault) && (fault.code === code || code === "interrupted")) return fault;
  const why = reasons[code] ?? "the transfer failed";
  const message = `client: ${JSON.stringify(uri)}: ${why}`;
  return new SluiceError(code, message, definedMembers({ cause: fault, retryAfterMs }));
}

const reasons: Partial<Record<SluiceErrorCode, string>> = {
  interrupted: "the connection broke too often; try again later",
  precondition_failed: "it keeps changing while it is read; try again later",
  protocol: "the server sent more bytes than it promised",
};

/** A transfer keeps breaking, and the server ignores ranges. */
export function rangeless(uri: string): SluiceError {
  return new SluiceError(
    "interrupted",
    `client: ${JSON.stringify(uri)} keeps breaking off, and the server gives no ranges; try again on a better connection`,
  );
}

/** The rest is unavailable, and what went out cannot be taken back. */
export function stuck(uri: string, fault: unknown): SluiceError {
  if (!isNetworkFault(fault)) return changed(uri, fault);
  const why = "broke off, and the server gives no ranges of it; start again";
  return new SluiceError("interrupted", `client: ${JSON.stringify(uri)} ${why}`, { cause: fault });
}

/** The resource has another version than the bytes that went out. */
export function changed(uri: string, fault: unknown): SluiceError {
  const why = "changed on the server while it was read; start again";
  const message = `client: ${JSON.stringify(uri)} ${why}`;
  return new SluiceError("precondition_failed", message, { cause: fault });
}

/** The pauses together became longer than the transfer may take. */
export function pausedTooLong(uri: string, fault: unknown): SluiceError {
  if (SluiceError.is(fault)) return fault;
  const why = "the pauses between tries take too long; try again later, or raise totalMs";
  return new SluiceError("timeout", `client: ${JSON.stringify(uri)}: ${why}`, { cause: fault });
}

/** A digest of the same version that is another than before. */
export function otherDigest(uri: string): SluiceError {
  return new SluiceError(
    "corrupt",
    `client: ${JSON.stringify(uri)}: the server promises another digest now; fetch it again`,
  );
}

/** A response with the text of an error in place of the bytes: services send even these with status 200. */
export function errorText(what: string): SluiceError {
  return new SluiceError(
    "unavailable",
    `client: the server sends ${what}, probably the text of an error; try again later`,
  );
}

/** A 404 of the server around the MCP handler, whose routes leave the download URLs out. */
export function unrouted(operation: string): SluiceError {
  return new SluiceError(
    "not_found",
    `client: ${operation}: nothing answers at the download URL (HTTP 404); route every path below the MCP endpoint to the handler`,
  );
}

/** The fault of a server whose bytes are late. */
export const lateBytes: Readonly<Record<Lateness, string>> = {
  idle: "the bytes stopped coming",
  slow: "the bytes come too slowly to be worth waiting",
  total: "the transfer takes too long; raise totalMs",
};
