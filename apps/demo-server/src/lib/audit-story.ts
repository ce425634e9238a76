import { readFile, rm, writeFile } from "node:fs/promises";
import { formatBytes } from "@sluice/cli/internal";
import type { AuditRecord } from "@sluice/server";
import { formatHead } from "@sluice/server/internal/node";
import { verifyAuditFiles } from "@sluice/server/node";

/** What an audit trail says, and what a check of it says. */
export interface AuditStory {
  /** The last records, for people. */
  readonly records: readonly string[];
  readonly verdict: string;
  /** What the check says of a copy in which one byte count is another one. */
  readonly forgery: string;
}

/** Checks a trail, then a changed copy. Rejects when either is not told for what it is. */
export async function readAuditStory(path: string): Promise<AuditStory> {
  const { findings, lines, head } = await verifyAuditFiles([path]);
  if (findings[0]) throw new Error(`the audit trail is broken: ${findings[0].message}`);
  const text = await readFile(path, "utf8");
  const records = text.split("\n").filter((line) => line.includes('"action":'));
  return {
    records: records.slice(-4).map(formatLine),
    verdict: `${lines} lines, none changed; the last one is ${shorten(formatHead(head))}`,
    forgery: await forge(`${path}.copy`, text),
  };
}

async function forge(path: string, text: string): Promise<string> {
  await writeFile(path, text.replace(/"bytes":[1-9]\d*/, '"bytes":1'));
  const { findings } = await verifyAuditFiles([path]);
  await rm(path);
  const [finding] = findings;
  if (!finding) throw new Error("the audit trail was changed, and the check did not see it");
  return `line ${finding.line}: ${finding.problem}: ${finding.message}`;
}

function formatLine(line: string): string {
  const { seq, hash, action, outcome, bytes, uri = "" } = JSON.parse(line) as ChainedRecord;
  const columns = [`${seq}`.padStart(4), action.padEnd(8), outcome.padEnd(8)];
  return `${columns.join("  ")}  ${formatBytes(bytes).padStart(8)}  ${shorten(hash)}  ${uri}`;
}

interface ChainedRecord extends AuditRecord {
  readonly seq: number;
  readonly hash: string;
}

function shorten(hash: string): string {
  return `${hash.slice(0, 12)}…`;
}
