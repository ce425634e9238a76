import { once } from "node:events";
import { homedir } from "node:os";
import { sep } from "node:path";
import { createInterface } from "node:readline";
import type { Consent, TransferScale } from "@sluice/client";
import { formatScale } from "@sluice/client/internal";
import { fault } from "../terminal/failure.ts";
import { printable } from "../terminal/print.ts";
import { formatBytes } from "../terminal/quantity.ts";

/** What the user already said on the command line. */
interface ConsentOptions {
  /** Yes to everything. */
  readonly yes?: boolean | undefined;
  /** Bytes that are accepted, and enforced. */
  readonly maxSize?: number | undefined;
  readonly signal: AbortSignal;
}

/** Bytes up to which the user is not asked. */
const askAbove = 2 ** 30;

/** Asks on the terminal before a large download, or one of unknown size; `undefined` if the answer is known. */
export function createConsent({ yes, maxSize, signal }: ConsentOptions): Consent | undefined {
  if (yes || maxSize !== undefined) return undefined;
  return async (scale) => {
    if (scale.unknownSizes === 0 && scale.bytes <= askAbove) return true;
    const what = describeScale(scale);
    if (!process.stdin.isTTY || !process.stderr.isTTY)
      throw fault(
        "too_large",
        `no terminal to ask whether to fetch ${what}`,
        "pass --yes, or a sufficient --max-size",
      );
    process.stderr.write(`Download ${what}? [y/N] `);
    if (/^\s*y(es)?\s*$/i.test((await readAnswer(signal)) ?? "")) return true;
    throw fault("too_large", "declined", "nothing was downloaded");
  };
}

/** Asks on the terminal before files are deleted. Throws `invalid_argument` without one, and unless the answer is yes. */
export async function askToDelete(
  count: number,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const what = `${count === 1 ? "1 file" : `${count} files`} below ${printable(folder)}`;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw fault(
      "invalid_argument",
      `no terminal to ask whether to delete ${what}`,
      "see them with --dry-run, then pass --yes",
    );
  process.stderr.write(`Delete ${what}? [y/N] `);
  if (/^\s*y(es)?\s*$/i.test((await readAnswer(signal)) ?? "")) return;
  throw fault("invalid_argument", "declined", "nothing was deleted");
}

function describeScale(scale: TransferScale): string {
  const { to } = scale;
  const home = homedir() + sep;
  const short = to?.startsWith(home) ? `~${sep}${to.slice(home.length)}` : to;
  return printable(
    formatScale({ ...scale, ...(short !== undefined && { to: short }) }, formatBytes),
  );
}

/** One line that is typed; `undefined` when there will be none. */
async function readAnswer(signal: AbortSignal): Promise<string | undefined> {
  // no line editing: Ctrl-C stays the terminal's own
  const lines = createInterface({ input: process.stdin, terminal: false });
  const stop = new AbortController();
  const until = { signal: AbortSignal.any([signal, stop.signal]) };
  try {
    const answered = once(lines, "line", until) as Promise<[string]>;
    const [line] = await Promise.race([answered, once(lines, "close", until)]);
    return line;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    stop.abort();
    lines.close();
  }
}

/**
 * Consent for each of several resources after one question for all: what they have in the end is at most what was agreed to, or
 * what needs no question. Those without a known size are taken if the question named some.
 */
export function createBudget(agreed: Pick<TransferScale, "bytes" | "unknownSizes">): Consent {
  const budgetBytes = Math.max(askAbove, agreed.bytes);
  let usedBytes = 0;
  return (scale) => {
    if (scale.unknownSizes > 0 && agreed.unknownSizes > 0) return true;
    usedBytes += scale.bytes;
    if (scale.unknownSizes === 0 && usedBytes <= budgetBytes) return true;
    throw fault("too_large", "it has grown since you were asked", "run the same command again");
  };
}
