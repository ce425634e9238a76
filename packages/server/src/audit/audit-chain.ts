import { createHash } from "node:crypto";
import { SluiceError } from "@sluice/core";

/** Where a chain stands: the number of its last line, and the hash that the next one names. */
export interface ChainHead {
  /** From 1; 0 before the first line. */
  readonly seq: number;
  /** SHA-256 in hex. */
  readonly hash: string;
}

/** Where every chain begins. */
export const chainStart: ChainHead = { seq: 0, hash: "0".repeat(64) };

/** One line of a chained file, without its line end, and where the chain stands after it. */
export interface ChainedLine {
  readonly text: string;
  readonly head: ChainHead;
}

/** Appends to a chain: an object of JSON with the line's number, the hash of the line before it, and its own. */
export function chainLine(before: ChainHead, content: object): ChainedLine {
  const seq = before.seq + 1;
  const body = JSON.stringify({ seq, prev: before.hash, ...content });
  const hash = hashOf(body);
  return { text: `${body.slice(0, -1)},"hash":"${hash}"}`, head: { seq, hash } };
}

/** A line as it was read. */
export interface ReadLine {
  readonly seq: number;
  /** Hash of the line before it. */
  readonly prev: string;
  /** Its own, as it says; `isGenuine` tells whether that is the hash of what it contains. */
  readonly hash: string;
  readonly isGenuine: boolean;
  /** True for the first line of a file. */
  readonly opensFile: boolean;
  /** In the first line of a file: the format of its lines. */
  readonly format?: number;
  /** True for a line that says that no head was noted of what stands before it. */
  readonly isUnnoted: boolean;
  /** In the first line of a file: what was there for certain, when a crash left more in doubt. */
  readonly kept?: ChainHead;
}

/** Reads a line; `undefined` if it is not of a chain. */
export function readChainLine(text: string): ReadLine | undefined {
  const [end, hash] = /,"hash":"([0-9a-f]{64})"\}$/.exec(text) ?? [];
  if (end === undefined || hash === undefined) return undefined;
  const body = `${text.slice(0, -end.length)}}`;
  const content = parse(body);
  if (!content) return undefined;
  const { seq, prev, event, kept, format } = content;
  if (!Number.isSafeInteger(seq) || typeof prev !== "string") return undefined;
  const opensFile = event === openedEvent.event;
  const certain = opensFile && typeof kept === "string" ? parseHead(kept) : undefined;
  return {
    seq: seq as number,
    prev,
    hash,
    isGenuine: hashOf(body) === hash,
    opensFile,
    isUnnoted: event === unnotedEvent.event,
    ...(opensFile && typeof format === "number" && { format }),
    ...(certain && { kept: certain }),
  };
}

/** Version of the format of the lines. */
const auditFormat = 1;

/** Content of the first line of each file. */
export const openedEvent: { readonly event: "opened"; readonly format: number } = {
  event: "opened",
  format: auditFormat,
};

/** Throws `unsupported` for the first line of a file in a format that this version does not read. */
export function ensureFormat(line: ReadLine | undefined, path: string): void {
  if (!line?.isGenuine || !line.opensFile || line.format === auditFormat) return;
  const found = line.format === undefined ? "no format" : `format ${line.format}`;
  throw new SluiceError(
    "unsupported",
    `audit: ${path} has ${found}, and this version of Sluice knows format ${auditFormat}: use the version that wrote it, or move the file away`,
  );
}

/** Content of a line before which lines may have been cut off: the head of the last one was not noted. */
export const unnotedEvent = { event: "unnoted" } as const;

/** A head as text: `12:ab…`, for a place where the writer of the file cannot write. */
export function formatHead({ seq, hash }: ChainHead): string {
  return `${seq}:${hash}`;
}

/** Reads {@link formatHead}'s text; `undefined` for anything else. */
export function parseHead(text: string): ChainHead | undefined {
  const [, seq, hash] = /^(\d{1,15}):([0-9a-f]{64})\s*$/.exec(text) ?? [];
  return seq === undefined || hash === undefined ? undefined : { seq: Number(seq), hash };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
