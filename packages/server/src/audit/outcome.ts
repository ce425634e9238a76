import { ProtocolError } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { errorTable } from "@sluice/core/wire";
import { FaultError } from "../faults/rpc-fault.ts";
import { hiddenFault } from "../faults/storage-fault.ts";

/** Outcome of an operation that an error ended, for records: a refusal, or a fault of the server or of storage. */
export function outcomeOf(error: unknown): "denied" | "failed" {
  if (error instanceof FaultError || isRefusal(error)) return "denied";
  return SluiceError.is(error) && !faults.has(error.code) ? "denied" : "failed";
}

const faults: ReadonlySet<string> = new Set([
  "internal",
  "timeout",
  "unavailable",
  "interrupted",
  "corrupt",
  "protocol",
]);

/** True for an error by which a handler of the author's refuses. */
function isRefusal(error: unknown): boolean {
  return error instanceof ProtocolError && error.code !== errorTable.internal.modern;
}

/** Why an operation was refused or failed, for records: an error code, the reason of a fault, `hidden` or `refused`. */
export function reasonOf(error: unknown): string {
  if (error === hiddenFault) return "hidden";
  if (error instanceof FaultError) return error.fault.data.reason;
  if (isRefusal(error)) return "refused";
  return SluiceError.is(error) ? error.code : "internal";
}
