import { checkKey } from "./key.ts";

/** How one entry and several entries of each reason are called. */
const words = {
  control: [
    "name with a tab, a newline or another control character",
    "names with a tab, a newline or another control character",
  ],
  backslash: ["name with a backslash", "names with a backslash"],
  notUtf8: ["name that is not UTF-8", "names that are not UTF-8"],
  tooLong: ["path of more than 1,024 bytes", "paths of more than 1,024 bytes"],
  segment: ['path with an empty, "." or ".." part', 'paths with an empty, "." or ".." part'],
  reserved: ["name that the system reserves", "names that the system reserves"],
  link: ["symbolic link", "symbolic links"],
  special: ["pipe, socket or device", "pipes, sockets or devices"],
  archived: ["in the archive tier", "in the archive tier"],
  unreadable: ["without permission to read", "without permission to read"],
} as const;

/** Why an entry of a storage is in no list, though nothing hides it. */
export type UnlistedReason = keyof typeof words;

/** How many entries are in no list, by reason. A folder counts once, whatever is in it. */
export type UnlistedCounts = Readonly<Partial<Record<UnlistedReason, number>>>;

/** Why a name cannot be a key; `undefined` for a legal one (see `checkKey`). */
export function unlistedReason(name: string): UnlistedReason | undefined {
  if (checkKey(name) === undefined) return undefined;
  if (/\p{Surrogate}/u.test(name)) return "notUtf8";
  if (name.includes("\\")) return "backslash";
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  if (/[\u0000-\u001f\u007f-\u009f]/.test(name)) return "control";
  return /(?:^|\/)\.{0,2}(?:\/|$)/.test(name) ? "segment" : "tooLong";
}

/** Counts entries that are in no list. */
export class UnlistedTally {
  #counts: Partial<Record<UnlistedReason, number>> = {};

  /** Counts one entry, unless there is no reason. */
  add(reason: UnlistedReason | undefined): void {
    if (reason !== undefined) this.addAll({ [reason]: 1 });
  }

  /** Counts an object of a service whose name is not a legal key. A name that ends with a slash, or none, marks a folder. */
  addName(name: string): void {
    if (name !== "" && !name.endsWith("/")) this.add(unlistedReason(name));
  }

  addAll(counts: UnlistedCounts | undefined = {}): void {
    for (const [reason, count] of Object.entries(counts) as [UnlistedReason, number][])
      this.#counts[reason] = (this.#counts[reason] ?? 0) + count;
  }

  /** The counts, which then begin anew; `undefined` if there are none. */
  take(): UnlistedCounts | undefined {
    const counts = this.#counts;
    this.#counts = {};
    return Object.keys(counts).length === 0 ? undefined : counts;
  }
}

/** The counts as a line for people: `3 not listed: 1 name with a backslash, 2 symbolic links`. */
export function formatUnlisted(counts: UnlistedCounts): string {
  const parts = Object.entries(counts) as [UnlistedReason, number][];
  const total = parts.reduce((sum, [, count]) => sum + count, 0);
  const list = parts.map(([reason, count]) => `${count} ${words[reason][count === 1 ? 0 : 1]}`);
  return `${total} not listed: ${list.join(", ")}`;
}

/** The counts in a value of another process: reasons that are not known here, and what is not a count, are left out. */
export function readUnlisted(value: unknown): UnlistedCounts | undefined {
  const counts = Object.entries(Object(value) as object).filter(
    ([reason, count]) => Object.hasOwn(words, reason) && Number.isSafeInteger(count) && count > 0,
  );
  return counts.length === 0 ? undefined : Object.fromEntries(counts);
}
