import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { Advice, describeFailure, fault } from "./failure.ts";
import { note, printable } from "./print.ts";

/** Faults of one file; after any other one the next file would fare no better. */
export const fileFaults: ReadonlySet<SluiceErrorCode> = new Set([
  "corrupt",
  "internal",
  "invalid_argument",
  "not_found",
  "permission_denied",
  "precondition_failed",
  "too_large",
  "unsupported",
]);

/** Faults of one resource of a download. */
export const resourceFaults: typeof fileFaults = new Set([
  ...fileFaults,
  "already_exists",
  "protocol",
  "range_not_satisfiable",
  "untrusted",
]);

/** Faults of one file among several: each is a line on standard error, and the first one is that of the run. */
export class RefusedFiles {
  readonly #codes: SluiceErrorCode[] = [];
  readonly #faults: ReadonlySet<SluiceErrorCode>;

  constructor(faults: ReadonlySet<SluiceErrorCode> = fileFaults) {
    this.#faults = faults;
  }

  get count(): number {
    return this.#codes.length;
  }

  /** True for a fault that leaves the next file its chance. */
  isOfFile(error: unknown): boolean {
    const { cause } = error instanceof Advice ? error : { cause: error };
    return SluiceError.is(cause) && this.#faults.has(cause.code);
  }

  /** Reports the fault of a file, as `get` does if `takesOutput`. */
  note(file: string, error: unknown, takesOutput = false): void {
    const { cause } = error instanceof Advice ? error : { cause: error };
    note(`sluice: ${printable(file)}: ${describeFailure(error, takesOutput).line}`);
    this.#codes.push((cause as SluiceError).code);
  }

  /** Throws if a file of `total` was refused. */
  ensureNone(total: number): void {
    const [first] = this.#codes;
    if (first === undefined) return;
    throw fault(first, `${this.count} of ${total} files were refused`, "see the lines above");
  }
}
