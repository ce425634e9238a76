/** Codes of an error and of what caused it, at most eight deep, the outermost first. */
export function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  let at: unknown = error;
  for (let depth = 0; depth < 8 && typeof at === "object" && at !== null; depth++) {
    const { code, name, cause, errors } = at as {
      code?: unknown;
      name?: unknown;
      cause?: unknown;
      errors?: unknown;
    };
    if (typeof code === "string") codes.push(code);
    // such a fault has a name and no code on some versions of Node
    if (name === "HTTPParserError") codes.push("HPE_INVALID");
    at = cause ?? (Array.isArray(errors) ? errors[0] : undefined);
  }
  return codes;
}
