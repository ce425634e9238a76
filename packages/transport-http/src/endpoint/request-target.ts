/** What routes are compared with: visible ASCII without a backslash and without a fragment. */
const originForm = /^\/[!"$-[\]-~]*$/;
/** Spellings that one router resolves and another one compares: empty and dot segments, encoded or not. */
const ambiguous = /\/\/|\/\.\.?(?:\/|$)|%(?:2[ef]|5c)/i;

/**
 * The path of a request target (RFC 9112 §3.2), exactly as it was sent. `undefined` for a target that must be refused:
 * any form but the origin form, and any path that has a second spelling.
 */
export function readTarget(target: string): string | undefined {
  if (!originForm.test(target)) return undefined;
  const query = target.indexOf("?");
  const path = query < 0 ? target : target.slice(0, query);
  return ambiguous.test(path) ? undefined : path;
}

/** The target of a web request: what its URL has behind the authority. */
export function targetOf({ url }: Pick<Request, "url">): string {
  const authority = url.indexOf("//") + 2;
  const end = url.slice(authority).search(/[/?#]/);
  if (end < 0) return "/";
  const target = url.slice(authority + end);
  return target.startsWith("/") ? target : `/${target}`;
}

/**
 * What stands before the routes below an endpoint: its path without a slash at the end, empty at the root. Throws a
 * `TypeError` for a path that no request can name.
 */
export function readBase(path: string): string {
  const base = path.replace(/\/$/, "");
  const isSpelled = path === "" || (readTarget(path) === path && urlPath(path) === path);
  if (!isSpelled)
    throw new TypeError(
      "sluice: path must be the path of the endpoint as URLs spell it, such as /mcp, without empty or dot segments",
    );
  return base;
}

function urlPath(path: string): string {
  return new URL(path, "http://localhost").pathname;
}
