import { createReadStream } from "node:fs";
import { definedMembers } from "@sluice/core/internal";
import {
  chainStart,
  ensureFormat,
  readChainLine,
  type ChainHead,
  type ReadLine,
} from "./audit-chain.ts";
import { headPathOf, readHead } from "./audit-head.ts";

/**
 * - `altered`: a line is not what was written, or the chain was written anew
 * - `removed`: lines are missing before this one
 * - `reordered`: a line stands after one that was written later, or stands there twice
 * - `truncated`: lines are missing at the end, or the last one is only half there
 * - `unchecked`: the end was not checked: lines may be missing after this one, for its head is noted nowhere. So it is with
 *   the last line when `<path>.head` is gone, empty, a link, or older than the file, and with the line before which a server
 *   found it so; `expect` of that line or a later one settles it
 */
export type AuditProblem = "altered" | "removed" | "reordered" | "truncated" | "unchecked";

/** One thing that is wrong. */
export interface AuditFinding {
  readonly problem: AuditProblem;
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly message: string;
}

/** What a check found. */
export interface AuditVerdict {
  readonly lines: number;
  /** Where the first file takes the chain up: seq 0 when it begins there, more when earlier files exist. */
  readonly continues: ChainHead;
  /** Where the chain stands at the end. */
  readonly head: ChainHead;
  /** The first 100, in the order of the lines. Empty: nothing was changed, and the end was checked. */
  readonly findings: readonly AuditFinding[];
}

/** Options of {@link verifyAuditFiles}. */
export interface VerifyOptions {
  /** A head that was noted earlier, somewhere else: the chain must have led through it. */
  readonly expect?: ChainHead;
  readonly signal?: AbortSignal;
}

/**
 * Checks chained files, oldest first, as one chain. Takes constant memory. The end is held against `<path>.head` of
 * the last file, and against `expect`; a process that can write both files can cut the end off or write everything
 * anew, which only `expect` shows. If neither names the end, that is also a finding. Rejects with `unsupported` for a file in
 * a format that this version does not know.
 */
export async function verifyAuditFiles(
  paths: readonly string[],
  { expect, signal }: VerifyOptions = {},
): Promise<AuditVerdict> {
  const findings: AuditFinding[] = [];
  const last = paths.at(-1);
  if (last === undefined) throw new TypeError("audit: name at least one file");
  const { noted, trouble } = await readHead(last);
  const expected = [noted?.kept, expect].filter((head) => head !== undefined);
  let head: ChainHead | undefined;
  let continues = chainStart;
  let lines = 0;
  let at = { path: paths[0]!, line: 0 };

  function find(problem: AuditProblem, message: string): void {
    if (findings.length < maxFindings) findings.push({ problem, ...at, message });
  }

  function begin(line: ReadLine | undefined): ChainHead {
    if (!line) return chainStart;
    continues = line.kept?.seq === 0 ? chainStart : { seq: line.seq - 1, hash: line.prev };
    if (!line.opensFile)
      find("removed", "the file begins in the middle: lines before this one are missing");
    else if (line.seq === 1 && line.prev !== chainStart.hash)
      find("altered", "the first line of a chain names a line before it");
    return continues;
  }

  function check(text: string): void {
    const line = readChainLine(text);
    ensureFormat(line, at.path);
    const before = head ?? begin(line);
    if (!line?.isGenuine) {
      find("altered", `record ${before.seq + 1} is not what was written`);
      // its number may be forged; the hash it names is what the next line is held against
      head = { seq: before.seq + 1, hash: line?.hash ?? unknown };
      return;
    }
    if (line.seq <= before.seq)
      return find("reordered", `record ${line.seq} stands after record ${before.seq}`);
    if (line.isUnnoted && !(expect && expect.seq >= before.seq))
      find("unchecked", `nothing noted how far the chain went before record ${line.seq}`);
    const missing = isInDoubt(before, line) ? 0 : line.seq - before.seq - 1;
    if (missing > 0) find("removed", `${missing} missing before record ${line.seq}`);
    else if (line.seq === before.seq + 1 && line.prev !== before.hash && before.hash !== unknown)
      find("altered", `the line before record ${line.seq} is not the one it was written after`);
    head = line;
    for (const each of expected)
      if (each.seq === line.seq && each.hash !== line.hash)
        find("altered", `record ${line.seq} is not the one that was noted: written anew`);
  }

  for (const path of paths) {
    at = { path, line: 0 };
    for await (const text of linesOf(path, signal)) {
      at = { path, line: at.line + 1 };
      if (text === undefined) find("truncated", "the line has no end");
      else check(text);
      lines += 1;
    }
  }
  const end = head ?? chainStart;
  for (const { seq, hash } of expected) {
    if (seq > end.seq)
      find("truncated", `ends at record ${end.seq}, but record ${seq} was written`);
    else if (seq < continues.seq || (seq === continues.seq && hash !== continues.hash))
      find("removed", `record ${seq} lies before these files: name the older ones, too`);
  }
  const vouched = Math.max(...[...expected, noted?.announced].map((each) => each?.seq ?? -1));
  if (end.seq > vouched && !(await isNotedNow(last, end))) {
    const why = trouble === undefined ? `names record ${noted.kept.seq}` : trouble;
    find("unchecked", `the end was not checked: ${headPathOf(last)} ${why}`);
  }
  return { lines, continues, head: { seq: end.seq, hash: end.hash }, findings };
}

/** True when a server went on writing while the file was read, and has noted the end since. */
async function isNotedNow(path: string, end: ChainHead): Promise<boolean> {
  const { noted } = await readHead(path);
  if (!noted) return false;
  const { kept, announced = kept } = noted;
  return kept.seq === end.seq ? kept.hash === end.hash : announced.seq >= end.seq;
}

/** True when what is missing between two lines was being written when a crash came: it was not removed. */
function isInDoubt(before: ChainHead, { seq, kept }: ReadLine): boolean {
  if (!kept || before.seq < kept.seq || before.seq >= seq - 1) return false;
  return before.seq > kept.seq || before.hash === kept.hash;
}

/** Hash of a line that cannot be read. */
const unknown = "";
const maxFindings = 100;
const maxLineBytes = 1024 * 1024;

/** Lines of a file; `undefined` for a last one without an end. What is too long or no text is an empty one. */
async function* linesOf(
  path: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<string | undefined> {
  let rest: Buffer[] = [];
  let restBytes = 0;
  for await (const chunk of createReadStream(path, definedMembers({ signal }))) {
    let bytes = chunk as Buffer;
    for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a)) {
      const isTooLong = restBytes + end > maxLineBytes;
      yield isTooLong ? "" : textOf(Buffer.concat([...rest, bytes.subarray(0, end)]));
      rest = [];
      restBytes = 0;
      bytes = bytes.subarray(end + 1);
    }
    restBytes += bytes.length;
    // a line that is too long is not gathered
    if (restBytes <= maxLineBytes && bytes.length > 0) rest.push(bytes);
  }
  if (restBytes > 0) yield undefined;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(bytes: Buffer): string {
  try {
    return decoder.decode(bytes);
  } catch {
    return "";
  }
}
