import { fault } from "../terminal/failure.ts";

/** Headers of lines like `Name: value`, as `--header` takes them. */
export function headersFrom(lines: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name, value] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n\0]*)$/.exec(line) ?? [];
    // never repeats it: it may hold a secret
    if (name === undefined || value === undefined)
      throw fault("invalid_argument", "a --header is malformed", "write it as 'Name: value'");
    headers[name] = value.trim();
  }
  return headers;
}
