import { stat } from "node:fs/promises";
import { statSync } from "node:fs";
import { basename } from "node:path";
import { confirm, isCancel, select, text } from "@clack/prompts";
import { typeOfName } from "@sluice/client/internal";
import type {
  FilesAnswer,
  FormValue,
  ReceivedFileRequest,
  RequestedField,
} from "@sluice/client/send";
import { isAccepted } from "@sluice/core/internal";
import { fault, Stopped } from "../terminal/failure.ts";
import { note, printable } from "../terminal/print.ts";
import { formatBytes } from "../terminal/quantity.ts";

/** The choices of the command line, and the signal that ends the wait for a person. */
interface PromptOptions {
  /** Files to answer with; none: ask for them. */
  readonly files: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * Answers a server's request for files: with those of the command line, else by asking on the
 * terminal. Without a terminal it refuses and says what was asked for.
 */
export async function answerFileRequest(
  request: ReceivedFileRequest,
  { files, signal }: PromptOptions,
): Promise<FilesAnswer<string>> {
  const { message, origin, fields, requiredValues } = request;
  const question = `${origin} asks for files: ${printable(message)}`;
  const [only] = fields;
  const isGiven = files.length > 0;
  if (isGiven && only && fields.length === 1 && requiredValues.length === 0) {
    note(question);
    return { action: "accept", files: { [only.name]: files } };
  }
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw fault(
      "unsupported",
      `no terminal to ask on: ${question}`,
      isGiven ? "it requests several lists of files" : "name the files on the command line",
    );
  const screen = { output: process.stderr, signal } as const;
  const isWilling = await confirm({ ...screen, message: `${question}\nChoose files to send?` });
  if (!heard(isWilling)) return { action: "decline" };
  const chosen: Record<string, readonly string[]> = {};
  for (const field of fields) chosen[field.name] = await askForFiles(field, screen);
  const values: Record<string, FormValue> = {};
  for (const [name, schema] of Object.entries(request.values)) {
    const value = await askForValue(name, schema, requiredValues.includes(name), screen);
    if (value !== undefined) values[name] = value;
  }
  return { action: "accept", files: chosen, values };
}

interface Screen {
  readonly output: NodeJS.WriteStream;
  readonly signal: AbortSignal;
}

/** What was answered. Ctrl-C at a question is what it is everywhere else. */
function heard<Value>(answer: Value): Exclude<Value, symbol> {
  if (!isCancel(answer)) return answer as Exclude<Value, symbol>;
  throw new Stopped("interrupted");
}

async function askForFiles(field: RequestedField, screen: Screen): Promise<string[]> {
  const { title, name, description, required, maxFiles } = field;
  const label = printable([title ?? name, description].filter(Boolean).join(": "));
  const paths: string[] = [];
  while (paths.length < maxFiles) {
    const isMore = paths.length > 0 || !required;
    const path = heard(
      await text({
        ...screen,
        message: `${label} (${limitsOf(field)})${isMore ? ", or nothing" : ""}`,
        placeholder: "path of a file",
        validate: (typed) => (isMore && !typed?.trim() ? undefined : whyNot(typed ?? "", field)),
      }),
    );
    if (!path?.trim()) break;
    paths.push(path.trim());
  }
  return paths;
}

function limitsOf({ accept, maxBytes }: RequestedField): string {
  const types = accept.length === 0 ? "any type" : printable(accept.join(", "));
  return `${types}, at most ${formatBytes(maxBytes)}`;
}

/** Why a path will not do; `undefined` when it may. The library looks again before it opens anything. */
function whyNot(typed: string, { accept, maxBytes }: RequestedField): string | undefined {
  const path = typed.trim();
  const info = statSync(path, { throwIfNoEntry: false });
  if (!info) return "No such file";
  if (!info.isFile()) return "Not a file";
  if (info.size > maxBytes) return `That has ${formatBytes(info.size)}`;
  const name = basename(path);
  const isRight = isAccepted({ name, mimeType: typeOfName(name) }, accept);
  return isRight ? undefined : `Expected: ${printable(accept.join(", "))}`;
}

type Schema = Readonly<Record<string, unknown>>;

/** Asks for one value of a form (MCP's primitive schemas); `undefined` for one that is left out. */
async function askForValue(
  name: string,
  schema: Schema,
  isRequired: boolean,
  screen: Screen,
): Promise<FormValue | undefined> {
  const { title } = schema;
  const label = printable(typeof title === "string" ? title : name);
  const message = isRequired ? label : `${label}, or nothing`;
  if (schema["type"] === "boolean") return heard(await confirm({ ...screen, message: label }));
  const choices = Array.isArray(schema["enum"]) ? schema["enum"].map(String) : undefined;
  if (choices) {
    const options = choices.map((value) => ({ value, label: printable(value) }));
    return heard(await select({ ...screen, message: label, options }));
  }
  const isNumber = schema["type"] === "number" || schema["type"] === "integer";
  const typed = heard(
    await text({
      ...screen,
      message,
      validate(value) {
        if (!value?.trim()) return isRequired ? "Needed" : undefined;
        return isNumber && !Number.isFinite(Number(value)) ? "Not a number" : undefined;
      },
    }),
  );
  if (!typed?.trim()) return undefined;
  return isNumber ? Number(typed) : typed;
}

/** Throws unless every path is one of a file. */
export async function ensureFiles(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const info = await stat(path).catch(() => undefined);
    if (!info?.isFile())
      throw fault("invalid_argument", `${path} is not a file`, "name files that exist");
  }
}
