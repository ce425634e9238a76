import { isDeepStrictEqual } from "node:util";
import {
  applyEdits,
  findNodeAtLocation,
  getNodeValue,
  modify,
  parseTree,
  printParseErrorCode,
  type ParseError,
} from "jsonc-parser";
import { parse as parseToml, stringify, TomlError } from "smol-toml";
import { fault } from "../terminal/failure.ts";

/** A server as a host's configuration names it. */
export interface ServerEntry {
  /** Key of the servers. */
  readonly key: string;
  /** Name of the server below it. */
  readonly name: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/**
 * Adds a server to a configuration, and leaves every other character as it is: comments, order, line ends. Gives the same text
 * if the server is there already. Throws for a text that cannot be read, and for another server of this name.
 */
export function addServer(format: "json" | "toml", text: string, entry: ServerEntry): string {
  return format === "json" ? addToJson(text, entry) : addToToml(text, entry);
}

/** Hosts allow comments and trailing commas. */
const jsonOptions = { allowTrailingComma: true, disallowComments: false };

function addToJson(text: string, { key, name, value }: ServerEntry): string {
  const source = text.trim() === "" ? "{}\n" : text;
  const errors: ParseError[] = [];
  const root = parseTree(source, errors, jsonOptions);
  const [error] = errors;
  if (error)
    throw unreadable(lineOf(source, error.offset), `JSON (${printParseErrorCode(error.error)})`);
  const servers = root && findNodeAtLocation(root, [key]);
  if (root?.type !== "object" || (servers && servers.type !== "object"))
    throw unreadable(1, `an object with an object ${key}`);
  const knownServer = findNodeAtLocation(root, [key, name]);
  if (knownServer) return sameOrThrow(name, getNodeValue(knownServer), value, text);
  const [edit] = modify(source, [key, name], value, {});
  if (!edit) return source;
  const content = laidOut(source, edit.content, servers ? 1 : 0);
  return applyEdits(source, [{ ...edit, content }]);
}

/**
 * A new member on lines of its own. The library would also lay out the members beside it. `depth`: how many objects it stands in
 * below the root.
 */
function laidOut(source: string, content: string, depth: number): string {
  const unit = /^\t/m.test(source) ? "\t" : " ".repeat(indentOf(source));
  const outer = unit.repeat(depth);
  const hasSiblings = content.startsWith(",");
  const member: unknown = JSON.parse(`{${hasSiblings ? content.slice(1) : content}}`);
  const lines = JSON.stringify(member, undefined, unit).split("\n").slice(1, -1);
  const lineEnd = source.includes("\r\n") ? "\r\n" : "\n";
  const block = lines.map((line) => lineEnd + outer + line).join("");
  return hasSiblings ? `,${block}` : `${block}${lineEnd}${outer}`;
}

function addToToml(text: string, { key, name, value }: ServerEntry): string {
  const servers = tomlOf(text)[key];
  const knownServer = isTable(servers) ? servers[name] : undefined;
  if (knownServer !== undefined) return sameOrThrow(name, knownServer, value, text);
  const block = stringify({ [key]: { [name]: value } });
  const gap = text.trim() === "" ? "" : text.endsWith("\n") ? "\n" : "\n\n";
  const whole = `${text}${gap}${block}`;
  // a file may have all servers in one inline table, to which no table can be added
  tomlOf(whole);
  return whole;
}

function tomlOf(text: string): Record<string, unknown> {
  try {
    return parseToml(text);
  } catch (error) {
    throw error instanceof TomlError ? unreadable(error.line, "TOML") : error;
  }
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function sameOrThrow(name: string, knownServer: unknown, value: object, text: string): string {
  // the values of smol-toml have no prototype
  if (isDeepStrictEqual(structuredClone(knownServer), structuredClone(value))) return text;
  throw fault(
    "already_exists",
    `another server is called ${name} there`,
    "pass --name with another name, or remove that one",
  );
}

function unreadable(line: number, what: string): Error {
  return fault(
    "invalid_argument",
    `line ${line} of the configuration cannot be read as ${what}; nothing was changed`,
    "mend it, or add what --print-config prints",
  );
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

/** Width of the first indentation by spaces. Default: 2. */
function indentOf(text: string): number {
  return /^( +)\S/m.exec(text)?.[1]?.length ?? 2;
}
