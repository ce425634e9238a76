import { isIP } from "node:net";
import { InvalidArgumentError, Option } from "commander";
import type { WantedPart } from "@sluice/client/internal";
import { MIN_STEP_BYTES } from "@sluice/core/internal";
import { bareHost } from "@sluice/core/internal/node";
import type { ResolvedHost } from "../server-calls/server-rules.ts";
import { parseBytes } from "../terminal/quantity.ts";
import { fault } from "../terminal/failure.ts";

/** The option `--token`. Other users of the machine see command lines, not the environment: hence the variable. */
export function tokenOption(description: string): Option {
  return new Option("--token <token>", description).env("SLUICE_TOKEN");
}

/** Reads a whole number within bounds. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Use a number from ${least} to ${most}.`);
  };
}

/** What `--max-step` is. */
export const stepText =
  "max size of one request of an upload; default: all at once, and less if a proxy refuses it";

/** Reads a number of bytes. */
export function sizeInBytes(text: string): number {
  const bytes = parseBytes(text);
  if (bytes === undefined) throw new InvalidArgumentError("Use a size such as 500M or 20G.");
  return bytes;
}

/** Reads a part of a file as curl does: `0-99`, `100-`, or `-500` for the last 500 bytes. */
export function partOfFile(text: string): WantedPart {
  const [, first = "", last = ""] = /^(\d*)-(\d*)$/.exec(text) ?? [];
  const [start, end] = [Number(first), last === "" ? Infinity : Number(last) + 1];
  const isSafe = Number.isSafeInteger(start) && (end === Infinity || Number.isSafeInteger(end));
  if (isSafe && first !== "" && start < end) return { start, end };
  if (isSafe && first === "" && last !== "" && end > 1) return { suffix: end - 1 };
  throw new InvalidArgumentError("Use a range such as 0-99, 100- or -500.");
}

function headerOption(): Option {
  return new Option(
    "--header <line>",
    "header of every request, as 'Name: value'; ${NAME} is from the environment; may be repeated",
  ).argParser(collect);
}

/** Where and what servers are on networks of one's own, as curl has it. */
export function networkOptions(): Option[] {
  return [
    new Option("--cacert <file>", "certificates to trust, in PEM, in place of the system's"),
    new Option("--cert <file>", "certificate to show the server, in PEM"),
    new Option("--key <file>", "key of this certificate; default: in the same file"),
    new Option(
      "--resolve <host:port:address>",
      "address of a host, in place of its name's; may be repeated",
    ).argParser(resolvedHost),
  ];
}

/** What every command that calls a server takes. */
export function serverOptions(): Option[] {
  return [headerOption(), tokenOption("token for the server"), ...networkOptions()];
}

/** Reads `host:port:address` with one address or several, those of IPv6 with or without brackets. */
function resolvedHost(text: string, before: readonly ResolvedHost[] = []): ResolvedHost[] {
  const [, host = "", port = "", list = ""] =
    /^([^:[\]\s]+|\[[\da-f:]+\]):(\d{1,5}):(\S+)$/i.exec(text) ?? [];
  const addresses = list.split(",").map(bareHost);
  if (host !== "" && Number(port) <= 65_535 && addresses.every((address) => isIP(address) !== 0))
    return [...before, { host, port: Number(port), addresses }];
  throw new InvalidArgumentError("Use HOST:PORT:ADDRESS, such as mcp.lan:443:192.168.1.7.");
}

/** Reads the bytes of one step of an upload. */
export function stepInBytes(text: string): number {
  const bytes = sizeInBytes(text);
  if (bytes >= MIN_STEP_BYTES) return bytes;
  throw new InvalidArgumentError("Use a size of 64K or more.");
}

/** Reads the name of a server in the configuration of a host. */
export function serverName(text: string): string {
  if (/^[\w-]{1,64}$/.test(text)) return text;
  throw new InvalidArgumentError("Use letters, digits, - and _, at most 64.");
}

/** Values of an option that may be repeated. */
export function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** Values of an option that takes web origins. */
export function originOf(value: string, before: readonly string[] = []): string[] {
  const isExact = URL.canParse(value) && new URL(value).origin === value;
  if (isExact) return [...before, value];
  throw new InvalidArgumentError("Use an origin without a path, such as http://localhost:6274.");
}

/** The token as given, or `undefined` for an empty one. Never repeats it, even if it is malformed. */
export function readToken(token: string | undefined): string | undefined {
  if (token === undefined || token === "") return undefined;
  if (!/^[\x21-\x7e]+$/.test(token))
    throw fault(
      "invalid_argument",
      "the token has invalid characters",
      "look for spaces and line ends around it",
    );
  return token;
}
