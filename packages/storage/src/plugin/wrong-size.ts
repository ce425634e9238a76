import { SluiceError } from "@sluice/core";

/** What a writer throws when not as many bytes come as were declared. `who` starts the message. */
export function wrongSize(who: string, written: number, declared: number): SluiceError {
  return new SluiceError(
    "invalid_argument",
    `${who}: ${written} bytes came, ${declared} were declared`,
  );
}
