import { SluiceError, type SluiceErrorCode } from "@sluice/core";

/**
 * A file that the rules of its slot refuse, so that no further step can make it one. What storage throws is none,
 * whatever its code: it may take the same bytes later.
 */
export class RefusedFile extends SluiceError {
  constructor(code: SluiceErrorCode, why: string) {
    super(code, `uploads: ${why}`);
  }
}
