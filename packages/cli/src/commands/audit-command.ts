import { formatHead, parseHead } from "@sluice/server/internal/node";
import { verifyAuditFiles, type AuditVerdict } from "@sluice/server/node";
import { errnoOf, fault } from "../terminal/failure.ts";
import { note, print, printable } from "../terminal/print.ts";

/** Options of `sluice audit verify`. */
export interface AuditVerifyOptions {
  /** A head that an earlier run printed. */
  readonly head?: string;
  readonly signal: AbortSignal;
}

/**
 * `sluice audit verify`: checks audit files, oldest first, as one chain. Prints the head of a whole one, to be
 * kept where the server cannot write; a changed one, or one whose end was not checked, is what is wrong with it, line by
 * line, and an error.
 */
export async function auditVerifyCommand(
  files: readonly string[],
  { head, signal }: AuditVerifyOptions,
): Promise<void> {
  const expect = head === undefined ? undefined : parseHead(head);
  if (head !== undefined && !expect)
    throw fault("invalid_argument", "invalid --head", "pass what an earlier run has printed");
  const verdict = await verify(files, { signal, ...(expect && { expect }) });
  const { findings, lines, continues } = verdict;
  for (const { path, line, problem, message } of findings)
    await print(`${printable(path)}:${line}: ${problem}: ${message}`);
  if (findings.length > 0 && findings.every(({ problem }) => problem === "unchecked"))
    throw fault(
      "corrupt",
      "no line was changed, but the end was not checked: lines may be missing there",
      "pass --head with a head that was noted since, and name the newer files, too",
    );
  if (findings.length > 0)
    throw fault(
      "corrupt",
      `the audit trail was changed: ${findings.length === maxFindings ? "more than " : ""}${findings.length} finding${findings.length === 1 ? "" : "s"}`,
      "compare with a copy from before",
    );
  const earlier =
    continues.seq > 0 ? `; ${continues.seq} lines before them are in older files` : "";
  note(`${lines} line${lines === 1 ? "" : "s"}, none changed${earlier}`);
  await print(formatHead(verdict.head));
}

/** The verifier names this many. */
const maxFindings = 100;

async function verify(
  files: readonly string[],
  options: Parameters<typeof verifyAuditFiles>[1],
): Promise<AuditVerdict> {
  try {
    return await verifyAuditFiles(files, options);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    const { path = "" } = error as NodeJS.ErrnoException;
    throw fault(
      "invalid_argument",
      `${path} cannot be read (${errno})`,
      "name audit files that are there",
    );
  }
}
