import { SluiceError } from "@sluice/core";
import { membersOf, type Members } from "../messages/messages.ts";
import {
  findSlot,
  slotsOf,
  takesBase64,
  takesUri,
  valueAt,
  type ArgumentPath,
  type ArgumentSlot,
} from "./argument-slots.ts";
import { quoted } from "./tool-answer.ts";

/** The tool that gets the file, and where. */
export type Taker =
  | { readonly tool: string; readonly kind: "asks" }
  | {
      readonly tool: string;
      readonly kind: "uri" | "base64" | "text";
      readonly path: ArgumentPath;
      /** The base64 goes in a `data:` URI. */
      readonly isDataUri?: boolean;
    };

/** What a call says of the tool. */
export interface NamedTaker {
  readonly tool: string | undefined;
  readonly argument: string | undefined;
  readonly as: GivenAs;
  /** The other arguments. */
  readonly others: Members;
}

/** `text`: the argument gets the text of the file. `asked`: the tool asks for the file, or gives an address for it. */
export type GivenAs = "text" | "asked" | undefined;

/** Reads `as`. Throws `invalid_argument` for any other word. */
export function readGivenAs({ as }: Members): GivenAs {
  if (as === undefined || as === null || as === "") return undefined;
  if (as === "text" || as === "asked") return as;
  throw new SluiceError("invalid_argument", 'bridge: as is "text", "asked", or left out');
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
  const takers = tools.filter(({ inputSchema }) => slotsOf(inputSchema).some(ofUri));
  const [only, another] = takers;
  if (only && !another) return takerOf(only, named);
  throw new SluiceError(
    "invalid_argument",
    only
      ? `bridge: several tools take files; pass tool: ${oneOf(takers.map((tool) => String(tool["name"])))}`
      : "bridge: no tool says that it takes files; pass tool",
  );
}

function takerOf(listedTool: Members, named: NamedTaker): Taker {
  const tool = String(listedTool["name"]);
  const slots = slotsOf(listedTool["inputSchema"]);
  const { argument, as, others } = named;
  if (as === "asked") {
    if (argument === undefined) return { tool, kind: "asks" };
    throw new SluiceError(
      "invalid_argument",
      'bridge: as: "asked" takes no argument; leave it out',
    );
  }
  if (argument !== undefined) return namedTaker(tool, slots, { argument, as, others });
  const open = slots.filter(({ path }) => (valueAt(others, path) ?? "") === "");
  const candidates = candidatesAmong(open, as);
  const [only, another] = candidates;
  if (only && !another) return { tool, path: only.path, ...codingOf(only, as)! };
  if (only === undefined && as === undefined && (open.length === 0 || givesAddress(listedTool)))
    return { tool, kind: "asks" };
  const reason = `${tool} would be called without the file`;
  const otherWay = 'if the tool asks for the file itself, or gives a URL for it, pass as: "asked"';
  throw new SluiceError(
    "invalid_argument",
    `bridge: ${reason}; ${adviceFor(candidates.length > 0 ? candidates : open)}; ${otherWay}`,
  );
}

/**
 * The places that a call means that names none: those that declare files first, then those that declare base64. One that says it
 * only in words must be named: it may say that it takes no base64, or be the name of a coding.
 */
function candidatesAmong(open: readonly ArgumentSlot[], as: GivenAs): readonly ArgumentSlot[] {
  if (as === "text") return open.filter((slot) => codingOf(slot, as) !== undefined);
  for (const takes of [ofUri, ofBase64]) {
    const candidates = open.filter(takes);
    if (candidates.length > 0) return candidates;
  }
  return [];
}

/** The argument that a call names. */
function namedTaker(
  tool: string,
  slots: readonly ArgumentSlot[],
  { argument, as, others }: Omit<NamedTaker, "tool" | "argument"> & { readonly argument: string },
): Taker {
  const found = findSlot(slots, argument, others);
  const coding = found && codingOf(found.slot, as);
  if (found && coding) return { tool, path: found.path, ...coding };
  const subject = `the argument ${quoted(argument)} of ${tool}`;
  if (found)
    throw new SluiceError(
      "invalid_argument",
      as === "text"
        ? `bridge: ${subject} does not take a plain text; leave out as`
        : `bridge: nothing says that ${subject} takes base64; pass as: "text" to send it the text of the file`,
    );
  const inner = slots.filter(({ path: [first] }) => first === argument);
  throw new SluiceError(
    "invalid_argument",
    `bridge: ${inner.length > 0 ? `${subject} has parts` : `${tool} has no argument ${quoted(argument)} that takes a text or a file`}; ${adviceFor(inner.length > 0 ? inner : slots)}`,
  );
}

/** In what form a place takes a file: undefined if nothing says that it takes one so. */
function codingOf(
  slot: ArgumentSlot,
  as: GivenAs,
): { readonly kind: "uri" | "base64" | "text"; readonly isDataUri?: boolean } | undefined {
  const isFile = ofUri(slot) || ofBase64(slot);
  if (as === "text") return isFile ? undefined : { kind: "text" };
  if (ofUri(slot)) return { kind: "uri" };
  if (ofBase64(slot)) return { kind: "base64" };
  return wordsCoding(slot);
}

function ofUri({ schemas }: ArgumentSlot): boolean {
  return schemas.some(takesUri);
}

function ofBase64({ schemas }: ArgumentSlot): boolean {
  return schemas.some(takesBase64);
}

/** Many servers say only in words what an argument takes. */
function wordsCoding({ path, schemas }: ArgumentSlot) {
  const words = schemas.flatMap(({ title, description }) => [title, description]);
  const texts = [path.findLast((step) => typeof step === "string"), ...words].filter(
    (text) => typeof text === "string",
  );
  if (texts.some(namesDataUri)) return { kind: "base64", isDataUri: true } as const;
  return texts.some((text) => /base-?64|b64/i.test(text))
    ? ({ kind: "base64" } as const)
    : undefined;
}

/** True for words that ask for a `data:` URI, and do not forbid its beginning. */
function namesDataUri(words: string): boolean {
  const lowerWords = words.toLowerCase();
  const isNamed =
    /data[- ]?ur[il]/.test(lowerWords) ||
    (lowerWords.includes("data:") && lowerWords.includes(";base64"));
  return isNamed && !/\b(?:no|not|without)\b/.test(lowerWords);
}

/** The tool says that its result has an address for the file, or that it is called again with the upload. */
function givesAddress({ inputSchema, outputSchema }: Members): boolean {
  return [inputSchema, outputSchema].some((schema) => {
    const properties = membersOf(membersOf(schema)["properties"]);
    return "upload_id" in properties || "upload_url" in properties;
  });
}

const maxNames = 6;

/** Nothing says that it takes more than a text. */
function isText(slot: ArgumentSlot): boolean {
  return codingOf(slot, undefined) === undefined;
}

/** What to write so that one of the places gets the file. */
function adviceFor(slots: readonly ArgumentSlot[]): string {
  if (slots.length === 0) return "it takes none; call the tool without send_file";
  const parts = [
    passing(
      slots.filter((slot) => !isText(slot)),
      "",
    ),
    passing(slots.filter(isText), ', with as: "text"'),
  ].filter((part) => part !== undefined);
  const hasParts = slots.some(({ path }) => path.length > 1);
  const rest = hasParts ? "; what is beside it goes in arguments, at the same place" : "";
  return `pass ${parts.join(", or ")}${rest}`;
}

function passing(slots: readonly ArgumentSlot[], how: string): string | undefined {
  if (slots.length === 0) return undefined;
  return `argument: ${oneOf(slots.map(({ name }) => name))}${how}`;
}

function oneOf(names: readonly string[]): string {
  const list = names.slice(0, maxNames).map(quoted).join(" or ");
  return names.length > maxNames ? `${list} or another` : list;
}
