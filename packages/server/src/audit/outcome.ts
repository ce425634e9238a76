import { SluiceError } from "@sluice/core";
import { hiddenFault } from "../access/access.ts";
import { FaultError } from "../sdk/rpc-fault.ts";

/** Outcome of an operation that an error ended, for records: a refusal, or a fault of the server or of storage. */
export function outcomeOf(error: unknown): "denied" | "failed" {
  if (error instanceof FaultError) return "denied";
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

/** Why an operation was refused or failed, for records: an error code, the reason of a fault, or `hidden`. */
export function reasonOf(error: unknown): string {
  if (error === hiddenFault) return "hidden";
  if (error instanceof FaultError) return error.fault.data.reason;
  return SluiceError.is(error) ? error.code : "internal";
}
