import type { Writable } from "node:stream";
import type { JSONRPCErrorResponse, JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { isResponse, readJson, readRpc, SluiceError } from "@sluice/core";
import { mostContainers } from "../spool/scan/string-scanner.ts";
import type { LongLine } from "./lines.ts";

/** Largest amount of bytes that wait for a reader of our output. */
const maxWaitingBytes = 64 * 2 ** 20;

/** What came as one line: a message, an error answer in place of one that was too long, or a fault. */
export type ParsedLine =
  | { readonly message: JSONRPCMessage; readonly fault?: never }
  | { readonly fault: string; readonly message?: never };

/**
 * Reads a line as a JSON-RPC message of at most `maxContainers` arrays and objects, where that is bounded. `maxBytes` is
 * for the words of the fault.
 */
export function readLine(
  line: string | LongLine,
  maxBytes: number,
  maxContainers?: number,
): ParsedLine {
  if (typeof line !== "string") return readLongLine(line, maxBytes);
  const { message, fault } = readRpc(line.endsWith("\r") ? line.slice(0, -1) : line, maxContainers);
  return fault ? { fault: fault.message } : { message: message as JSONRPCMessage };
}

/** Errors for the calls that a line of a server answers, where the line is a batch, or too deep or wide to be read. */
export function refusedAnswers(line: string | LongLine, fault: string): readonly JSONRPCMessage[] {
  if (typeof line !== "string") return [];
  const { value } = readJson(line, mostContainers);
  const ids = Array.isArray(value)
    ? (value as unknown[]).filter(isResponse).map(({ id }) => id)
    : [idAtStart(line.slice(0, endBytes)) ?? idAtEnd(line.slice(-endBytes))];
  return ids.filter((id) => id !== undefined).map((id) => unreadableAnswer(id, fault));
}

/** The error for a call whose answer cannot be read. */
export function unreadableAnswer(id: RequestId, fault: string): JSONRPCErrorResponse {
  const message = `The server's answer cannot be read: ${fault}. Tell its author.`;
  return { jsonrpc: "2.0", id, error: { code: -32_000, message } };
}

const endBytes = 300;

/** An answer that is too long becomes an error for its call, where the id stands at one of its ends. */
function readLongLine(line: LongLine, maxBytes: number): ParsedLine {
  const fault = `a message is larger than ${maxBytes / 2 ** 20} MiB`;
  const id = line.tail === undefined ? idAtStart(line.head) : idAtEnd(line.tail);
  if (id === undefined) return { fault };
  const message = `Dropped: ${fault}. Use smaller parts.`;
  return { message: { jsonrpc: "2.0", id, error: { code: -32_000, message } } };
}

const startPattern = /^\{(?:"jsonrpc":"2\.0",)?"id":("[^"\\]{0,200}"|\d{1,16}),/;
const endPattern = /,"id":("[^"\\]{0,200}"|\d{1,16})(?:,"jsonrpc":"2\.0")?\}\r?$/;

function idAtStart(head: string): RequestId | undefined {
  return parseId(startPattern.exec(head)?.[1]);
}

function idAtEnd(tail: string): RequestId | undefined {
  return parseId(endPattern.exec(tail)?.[1]);
}

function parseId(text: string | undefined): RequestId | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as RequestId);
}

/**
 * Writes a message as a line. Resolves when the stream takes more. Throws `unavailable` when the reader has left
 * too much unread, or is gone.
 */
export function writeLine(stream: Writable, message: JSONRPCMessage): Promise<void> {
  if (stream.destroyed || stream.writableEnded)
    return Promise.reject(new SluiceError("unavailable", "bridge: the other side is gone"));
  if (stream.writableLength > maxWaitingBytes)
    return Promise.reject(
      new SluiceError("unavailable", "bridge: the other side does not read what is sent to it"),
    );
  if (stream.write(`${JSON.stringify(message)}\n`)) return Promise.resolve();
  let drained = drains.get(stream);
  if (!drained) {
    drained = untilDrained(stream).finally(() => drains.delete(stream));
    drains.set(stream, drained);
  }
  return drained;
}

/** One wait serves all writers of a stream. */
const drains = new WeakMap<Writable, Promise<void>>();

function untilDrained(stream: Writable): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      stream.off("drain", settle).off("close", leave);
      resolve();
    };
    const leave = (): void => {
      stream.off("drain", settle).off("close", leave);
      reject(new SluiceError("unavailable", "bridge: the other side is gone"));
    };
    stream.on("drain", settle).on("close", leave);
  });
}
