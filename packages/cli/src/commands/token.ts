import { fault } from "../terminal/failure.ts";

/** The token as given, or `undefined` for an empty one. Never repeats it, also not when it is malformed. */
export function readToken(given: string | undefined): string | undefined {
  if (given === undefined || given === "") return undefined;
  if (!/^[\x21-\x7e]+$/.test(given))
    throw fault(
      "invalid_argument",
      "the token has characters that no token has",
      "look for spaces and line ends around it",
    );
  return given;
}
