/**
 * Throws a `TypeError` that names an unknown option and the nearest one that exists: a misspelled option must not
 * leave a default in force that its author meant to change. `known` has every name as a key.
 */
export function ensureKnownOptions(
  who: string,
  options: object,
  known: Readonly<Record<string, unknown>>,
): void {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return;
  const nearest = nearestName(unknown, Object.keys(known));
  const advice = nearest === undefined ? "" : `; did you mean ${nearest}?`;
  throw new TypeError(`${who}: there is no option ${unknown}${advice}`);
}

/** The name that a typo was meant to be; `undefined` if none is near. */
function nearestName(typo: string, names: readonly string[]): string | undefined {
  const near = names
    .map((name) => ({ name, distance: editDistance(typo.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.max(2, Math.floor(name.length / 3)));
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.name;
}

/** Levenshtein distance: insertions, removals and replacements of one letter. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(
        Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + Number(a[i - 1] !== b[j - 1])),
      );
    row = next;
  }
  return row[b.length]!;
}
