import { SluiceError, type ByteFlow } from "@sluice/core";
import { isResponse, keyOf, type LooseMessage, readJson } from "@sluice/core/internal";
import { readText } from "../net/read-text.ts";

/** Maximum bytes of a JSON response to `resources/stream`, and of the body of a refusal. */
const maxMessageBytes = 256 * 1024;

/** The call that a response is for. */
export interface AnsweredCall {
  /** Its name in errors. */
  readonly what: string;
  /** Its JSON-RPC id. */
  readonly id: unknown;
  /** Milliseconds in which its response has to come. */
  readonly answerMs: number;
}

/** The text of a body. Throws `protocol` for one of more than 256 KiB. */
export async function readMessage(body: ByteFlow, { what }: AnsweredCall): Promise<string> {
  const { text, cut } = await readText(body, maxMessageBytes);
  if (cut === "limit") throw tooLong(what, maxMessageBytes);
  if (cut) throw cut;
  return text;
}

/** The first 256 KiB of a body as text, or as much as arrived. */
export async function readBeginning(body: ByteFlow): Promise<string> {
  const { text } = await readText(body, maxMessageBytes);
  return text;
}

/**
 * The JSON of a response as the SDK accepts it: with a response to the call. An error without an id is this call's: its
 * server could not read which one. Throws `protocol` for anything else.
 */
export function answerIn(text: string, call: AnsweredCall): string {
  const answer = readJson(text).value;
  const messages: unknown[] = Array.isArray(answer) ? answer : [answer];
  if (messages.some((message) => answers(message, call.id))) return text;
  const [message] = messages;
  if (isNamelessError(message)) return JSON.stringify({ ...message, id: call.id });
  throw message === undefined ? malformed(call) : foreign(call);
}

export function answers(message: unknown, id: unknown): boolean {
  return isResponse(message) && keyOf(message.id) === keyOf(id);
}

/** JSON-RPC 2.0 section 5: an error whose request could not be read has the id `null`. */
export function isNamelessError(message: unknown): message is LooseMessage {
  const { id, error } = (message ?? {}) as { id?: unknown; error?: unknown };
  return (id === null || id === undefined) && typeof error === "object" && error !== null;
}

export function foreign({ what }: AnsweredCall): SluiceError {
  return new SluiceError("protocol", `client: ${what}: the server answered another request`);
}

function malformed({ what }: AnsweredCall): SluiceError {
  return new SluiceError("protocol", `client: ${what}: the server's answer is not JSON-RPC`);
}

export function tooLong(what: string, bytes: number): SluiceError {
  return new SluiceError(
    "protocol",
    `client: ${what}: the server's answer has more than ${bytes} bytes`,
  );
}
