import { readTarget } from "@sluice/core/internal";

/** The target of a web request: the part of its URL after the authority. */
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
