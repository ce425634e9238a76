import { callService, type ServiceCall } from "@sluice/storage/plugin";
import { toSluiceError } from "./files-error.ts";

/** One call of an adapter, with errors of Sluice. `discard` frees a response that comes after the end of the wait. */
export function callAdapter<T>(
  call: ServiceCall,
  send: () => Promise<T>,
  discard?: (late: T) => void,
): Promise<T> {
  return callService(call, send, { toError: toSluiceError, discard });
}
