import { SluiceError } from "@sluice/core";

/** The error of portable code for something that only Node's has. */
export function needsNode(what: string): SluiceError {
  return new SluiceError(
    "unsupported",
    `client: ${what} needs Node or Bun, in bundles the condition "node"`,
  );
}
