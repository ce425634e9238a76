import { foldName } from "@sluice/core/internal";

/** A name that there is. */
export interface KnownName {
  /** Without the base URI. */
  readonly path: string;
  readonly uri: string;
}

/** A path that a model gave in place of a URI. */
export interface GivenPath {
  readonly path: string;
  /** It may begin with folders that are not served. */
  readonly isAbsolute: boolean;
}

/** What a path may mean. */
export interface NameMatch {
  /** URI of the one name that it can mean. */
  readonly found?: string;
  /** Without one: URIs that it may mean, at most three. */
  readonly nearest: readonly string[];
}

const maxNearest = 3;
/** Characters of a path that is compared. */
const maxCompared = 1_024;

/**
 * The path that a model means by a name, a path or a `file:` URI. `undefined` for a URI of another scheme, which names
 * nothing here.
 */
export function pathIn(given: string): GivenPath | undefined {
  const [scheme = ""] = /^[a-z][a-z0-9+.-]*:/i.exec(given) ?? [];
  const isDrive = scheme.length === 2;
  if (scheme !== "" && !isDrive && scheme.toLowerCase() !== "file:") return undefined;
  const text = given.slice(isDrive ? 0 : scheme.length).replaceAll("\\", "/");
  const path = decodedPath(text).replace(/^(?:\.?\/)+|^\.$/, "");
  return { path, isAbsolute: isDrive || scheme !== "" || text.startsWith("/") };
}

/** A path without its percent-encoding, as far as it has one. */
export function decodedPath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A path without the slashes at its end. */
export function withoutEndSlash(path: string): string {
  let end = path.length;
  while (path[end - 1] === "/") end--;
  return path.slice(0, end);
}

/** Finds what a path means: the name itself, one in any folder, or the end of an absolute path. */
export function matchName({ path, isAbsolute }: GivenPath, names: readonly KnownName[]): NameMatch {
  const query = foldName(path);
  if (query === "" || query.length > maxCompared) return { nearest: [] };
  const folded = names.map(({ path: name, uri }) => ({ uri, text: foldName(name) }));
  const tails = isAbsolute ? folded.filter(({ text }) => query.endsWith(`/${text}`)) : [];
  const longest = tails.reduce((length, { text }) => Math.max(length, text.length), 0);
  const candidates = [
    folded.filter(({ text }) => text === query),
    folded.filter(({ text }) => text.endsWith(`/${query}`)),
    tails.filter(({ text }) => text.length === longest),
  ];
  const meant = candidates.find(({ length }) => length > 0);
  if (meant?.length === 1) return { found: meant[0]!.uri, nearest: [] };
  const nearest = (meant ?? nearestTo(query, folded)).slice(0, maxNearest);
  return { nearest: nearest.map(({ uri }) => uri) };
}

interface FoldedName {
  readonly uri: string;
  readonly text: string;
}

function nearestTo(query: string, names: readonly FoldedName[]): FoldedName[] {
  const last = lastSegment(query);
  const bound = Math.max(2, Math.floor(last.length / 3));
  return names
    .map((name) => ({ name, distance: distanceOf(last, lastSegment(name.text), bound) }))
    .filter(({ distance }) => distance <= bound)
    .toSorted((a, b) => a.distance - b.distance)
    .map(({ name }) => name);
}

function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** How many letters have to be put in, taken out or replaced; more than `bound` counts as infinitely many. */
function distanceOf(a: string, b: string, bound: number): number {
  if (Math.abs(a.length - b.length) > bound) return Infinity;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, replaced);
    }
    if (Math.min(...next) > bound) return Infinity;
    row = next;
  }
  return row[b.length]!;
}

/** A sentence about a missing name, with those that may be meant. */
export function withNearest(sentence: string, nearest: readonly string[]): string {
  return nearest.length === 0 ? sentence : `${sentence}. Nearest: ${nearest.join(", ")}`;
}
