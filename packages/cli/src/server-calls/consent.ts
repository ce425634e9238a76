import { once } from "node:events";
import { homedir } from "node:os";
import { sep } from "node:path";
import { createInterface } from "node:readline";
import { formatScale, type Consent, type TransferScale } from "@sluice/client";
import { fault } from "../terminal/failure.ts";
import { printable } from "../terminal/printable.ts";
import { formatBytes } from "../terminal/quantity.ts";

/** What the user already said on the command line. */
export interface ConsentOptions {
  /** Yes to everything. */
  readonly yes?: boolean | undefined;
  /** Bytes that are all right, and enforced. */
  readonly maxSize?: number | undefined;
  readonly signal: AbortSignal;
}

/** Bytes up to which the user is not asked. */
const askAbove = 2 ** 30;

/** Asks on the terminal before a large download, or one of unknown size; `undefined` where the answer is there already. */
export function createConsent({ yes, maxSize, signal }: ConsentOptions): Consent | undefined {
  if (yes || maxSize !== undefined) return undefined;
  return async (scale) => {
    if (scale.unknownSizes === 0 && scale.bytes <= askAbove) return true;
    const what = describeScale(scale);
    if (!process.stdin.isTTY || !process.stderr.isTTY)
      throw fault(
        "too_large",
        `there is no terminal to ask on whether to fetch ${what}`,
        "pass --yes, or --max-size with what is all right",
      );
    process.stderr.write(`Download ${what}? [y/N] `);
    if (/^\s*y(es)?\s*$/i.test((await readAnswer(signal)) ?? "")) return true;
    throw fault("too_large", "declined", "nothing was downloaded");
  };
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
  const waiting = new AbortController();
  const until = { signal: AbortSignal.any([signal, waiting.signal]) };
  try {
    const answered = once(lines, "line", until) as Promise<[string]>;
    const [line] = await Promise.race([answered, once(lines, "close", until)]);
    return line;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    waiting.abort();
    lines.close();
  }
}
