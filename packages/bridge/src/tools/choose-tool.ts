import { SluiceError } from "@sluice/core";
import { FILE_KEYWORD } from "@sluice/core/internal";
import { membersOf, type Members } from "../messages/messages.ts";
import { quoted } from "./tool-answer.ts";

/** The tool that gets the file, and the argument that takes it. */
export interface Taker {
  readonly tool: string;
  readonly kind: "uri" | "base64" | "text" | "asks";
  readonly argument?: string;
  readonly isList?: boolean;
  /** The base64 goes in a `data:` URI. */
  readonly isDataUri?: boolean;
}

/** What a call says of the tool. */
interface NamedTaker {
  readonly tool: string | undefined;
  readonly argument: string | undefined;
  /** The argument gets the text of the file. */
  readonly isText: boolean;
}

/** Reads `as`. Throws `invalid_argument` for another word than `text`. */
export function isAsText({ as }: Members): boolean {
  if (as === undefined || as === null || as === "") return false;
  if (as === "text") return true;
  throw new SluiceError("invalid_argument", 'bridge: as is "text", or left out');
}

/**
 * The tool of this name, or the only one that says that it takes files. Throws `not_found` for a name of none, and
 * `invalid_argument` if the call must say more.
 */
export function chooseTool(tools: readonly Members[], named: NamedTaker): Taker {
  const { tool: name } = named;
  if (name !== undefined) {
    const listedTool = tools.find((tool) => tool["name"] === name);
    if (listedTool) return takerOf(listedTool, named);
    throw new SluiceError(
      "not_found",
      `bridge: the server has no tool ${JSON.stringify(name)}; pass one that it has`,
    );
  }
  const takers = tools.map((tool) => takerOf(tool, named)).filter(({ kind }) => kind === "uri");
  const [only, another] = takers;
  if (only && !another) return only;
  throw new SluiceError(
    "invalid_argument",
    only
      ? "bridge: several tools take files; pass tool"
      : "bridge: no tool says that it takes files; pass tool",
  );
}

function takerOf({ name, inputSchema }: Members, { argument, isText }: NamedTaker): Taker {
  const tool = String(name);
  const properties = Object.entries(membersOf(membersOf(inputSchema)["properties"]));
  if (isText) return textTaker(tool, properties, argument);
  for (const [property, value] of properties) {
    if (argument !== undefined && property !== argument) continue;
    const schemas = alternativesOf(value);
    if (schemas.some((schema) => FILE_KEYWORD in schema))
      return { tool, kind: "uri", argument: property };
    if (schemas.some(({ items }) => FILE_KEYWORD in membersOf(items)))
      return { tool, kind: "uri", argument: property, isList: true };
    if (schemas.some(isBase64)) return { tool, kind: "base64", argument: property };
    const words = argument === undefined ? [] : wordsOf(property, schemas);
    if (words.some(namesDataUri))
      return { tool, kind: "base64", argument: property, isDataUri: true };
    if (words.some((text) => /base-?64|b64/i.test(text)))
      return { tool, kind: "base64", argument: property };
  }
  if (argument === undefined) return { tool, kind: "asks" };
  throw properties.some(([property]) => property === argument)
    ? new SluiceError(
        "invalid_argument",
        `bridge: nothing says that the argument ${quoted(argument)} of ${tool} takes base64; pass as: "text" to send it the text of the file`,
      )
    : noArgument(tool, argument);
}

/** An argument that takes a text gets the text of the file, when the call says so. */
function textTaker(
  tool: string,
  properties: readonly (readonly [string, unknown])[],
  argument: string | undefined,
): Taker {
  if (argument === undefined)
    throw new SluiceError("invalid_argument", 'bridge: as: "text" needs argument; pass it');
  const property = properties.find(([name]) => name === argument);
  if (!property) throw noArgument(tool, argument);
  const schemas = alternativesOf(property[1]);
  const isFile = schemas.some((schema) => FILE_KEYWORD in schema || isBase64(schema));
  if (isFile || !schemas.some(({ type }) => [type].flat().includes("string")))
    throw new SluiceError(
      "invalid_argument",
      `bridge: the argument ${quoted(argument)} of ${tool} does not take a plain text; leave out as`,
    );
  return { tool, kind: "text", argument };
}

function noArgument(tool: string, argument: string): SluiceError {
  return new SluiceError(
    "invalid_argument",
    `bridge: ${tool} has no argument ${quoted(argument)}; pass one that it has`,
  );
}

/** The schema of an argument, and those that it offers: an optional argument in Python is `anyOf` with null. */
function alternativesOf(value: unknown): readonly Members[] {
  const schema = membersOf(value);
  const offered = [schema["anyOf"], schema["oneOf"]].filter((list) => Array.isArray(list)).flat();
  return [schema, ...offered.map(membersOf)];
}

function isBase64({ contentEncoding, format }: Members): boolean {
  return contentEncoding === "base64" || format === "byte" || format === "base64";
}

/** Many servers say only in words what an argument takes. */
function wordsOf(property: string, schemas: readonly Members[]): readonly string[] {
  const words = schemas.flatMap(({ title, description }) => [title, description]);
  return [property, ...words].filter((text) => typeof text === "string");
}

/** True for words that ask for a `data:` URI, and do not forbid its beginning. */
function namesDataUri(words: string): boolean {
  const shown = words.toLowerCase();
  const isNamed =
    /data[- ]?ur[il]/.test(shown) || (shown.includes("data:") && shown.includes(";base64"));
  return isNamed && !/\b(?:no|not|without)\b/.test(shown);
}
