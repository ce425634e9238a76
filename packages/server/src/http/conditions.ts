import { matchesIfMatch, matchesIfNoneMatch, parseHttpDate } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";

/** A header field of a request by its name in lower case. */
type HeaderOf = (name: string) => string | undefined;

/** Whether a request has a condition that a download looks at. */
export function isConditional(header: HeaderOf): boolean {
  return ["if-match", "if-unmodified-since", "if-none-match"].some(
    (name) => header(name) !== undefined,
  );
}

/** What the conditions of a request make of it, in the order of RFC 9110 §13.2.2; `undefined` where they let it pass. */
export function conditionalStatus(
  { lastModified }: ObjectInfo,
  tag: string | undefined,
  header: HeaderOf,
): 304 | 412 | undefined {
  const ifMatch = header("if-match");
  const latest = parseHttpDate(header("if-unmodified-since"), Date.now()) ?? Infinity;
  // HTTP dates have whole seconds
  const changed = Math.floor((lastModified?.getTime() ?? 0) / 1_000) * 1_000;
  if (ifMatch === undefined ? changed > latest : !matchesIfMatch(ifMatch, tag)) return 412;
  return matchesIfNoneMatch(header("if-none-match"), tag) ? 304 : undefined;
}
