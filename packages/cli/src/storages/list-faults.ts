import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { printable } from "../terminal/printable.ts";

const quietMs = 60_000;

/** Faults of which the server itself tells its clients and its log no cause. */
const silent: ReadonlySet<SluiceErrorCode> = new Set([
  "not_found",
  "permission_denied",
  "unauthenticated",
  "throttled",
  "unavailable",
  "timeout",
]);

/** The backend, with a line in the log for a list that fails: of each kind of fault at most one a minute. */
export function tellListFaults(
  backend: StorageBackend,
  write: (line: string) => void,
  now: () => number = Date.now,
): StorageBackend {
  const told = new Map<SluiceErrorCode, number>();

  function tell({ code, message }: SluiceError): void {
    const last = told.get(code) ?? -Infinity;
    if (!silent.has(code) || now() - last < quietMs) return;
    told.set(code, now());
    write(`sluice: ${printable(message)}`);
  }

  return {
    ...backend,
    async list(options) {
      try {
        return await backend.list(options);
      } catch (error) {
        if (SluiceError.is(error) && !options?.signal?.aborted) tell(error);
        throw error;
      }
    },
  };
}
