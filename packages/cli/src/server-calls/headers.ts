import { fault } from "../terminal/failure.ts";
import { withVariables } from "../terminal/variables.ts";

/**
 * Headers of lines like `Name: value`, as `--header` takes them. `${NAME}` is taken from the environment, and
 * `${NAME:-other}` with another text where it is not set: no shell has read the configuration of a host. Messages repeat
 * nothing of a line: it may hold a secret.
 */
export function headersFrom(
  lines: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name, value] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n\0]*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined)
      throw fault("invalid_argument", "a --header is malformed", "write it as 'Name: value'");
    headers[name] = withVariables(value, env, unsetVariable).trim();
    if (/[\r\n\0]/.test(headers[name]))
      throw fault("invalid_argument", "a variable of a --header has several lines", "correct it");
  }
  return headers;
}

/** Names of headers that hold a secret as text: one that is written down should come from the environment. */
export function literalSecrets(lines: readonly string[]): string[] {
  return lines.flatMap((line) => {
    const [name = "", value = ""] = line.split(/:(.*)/s);
    return /auth|cookie|key|secret|token/i.test(name) && !value.includes("${") ? [name] : [];
  });
}

function unsetVariable(name: string): Error {
  return fault(
    "invalid_argument",
    `a --header names the variable ${name}, which is not set`,
    `set it in the environment of this command, or write \${${name}:-other}`,
  );
}

/** A header line up to its colon: the rest of it is the next argument. */
const namePattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:$/;

/**
 * The arguments of a command line in which each `--header` is one: hosts on Windows, and shells without quotes, split it
 * at its blanks. The value goes on to the next option, address or `--`.
 */
export function joinHeaders(args: readonly string[]): string[] {
  const joined: string[] = [];
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  for (let at = 0; at < args.length; at++) {
    const argument = args[at] as string;
    const line = argument.startsWith("--header=") ? argument.slice(9) : argument;
    const isLine = argument !== line || (at > 0 && args[at - 1] === "--header");
    if (at >= end || !isLine || !namePattern.test(line)) {
      joined.push(argument);
      continue;
    }
    const parts = [argument];
    while (at + 1 < end && isOfValue(args[at + 1] as string)) parts.push(args[++at] as string);
    joined.push(parts.join(" "));
  }
  return joined;
}

function isOfValue(argument: string): boolean {
  return !argument.startsWith("--") && !/^https?:\/\//i.test(argument);
}
