import type { Exemption, Level, Requirement } from "./requirements.ts";

type Entry = (
  path: string,
  side: Requirement["side"],
  text: string,
  exemption?: Exemption,
) => Requirement;

/** Makes the entries of one source, a function for each key word. Ids begin with `source`. */
export function entriesOf(
  source: string,
): Record<"must" | "mustNot" | "should" | "shouldNot" | "may" | "stated", Entry> {
  const entry =
    (level: Level): Entry =>
    (path, side, text, exemption) => ({
      id: `${source}/${path}`,
      section: path.slice(0, path.lastIndexOf("/")),
      level,
      text,
      side,
      ...(exemption && { exemption }),
    });
  return {
    must: entry("MUST"),
    mustNot: entry("MUST NOT"),
    should: entry("SHOULD"),
    shouldNot: entry("SHOULD NOT"),
    may: entry("MAY"),
    stated: entry("STATED"),
  };
}

/** We do something else on purpose, and tests show what. */
export const deviation = (reason: string): Exemption => ({ kind: "deviation", reason });
