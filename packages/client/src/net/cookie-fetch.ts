import type { FetchLike } from "@sluice/core";

interface Cookie {
  readonly value: string;
  /** Requests below it get the cookie. */
  readonly path: string;
  readonly isSecure: boolean;
}

/** More than a load balancer sets. */
const maxCookies = 50;
const maxCookieSize = 4_096;

/**
 * A `fetch` that keeps the cookies of one origin, and gives them back to it and to no other: load balancers find the replica
 * of a session by them. They live as long as the `fetch`. A cookie that a request has itself stays as it is.
 */
export function cookieFetch(fetch: FetchLike, origin: string): FetchLike {
  const jar = new Map<string, Cookie>();
  return async (input, init) => {
    const url = new URL(input);
    if (url.origin !== origin) return fetch(input, init);
    const response = await fetch(input, jar.size === 0 ? init : withCookies(jar, url, init));
    for (const line of response.headers.getSetCookie()) store(jar, line, url);
    return response;
  };
}

function withCookies(
  jar: ReadonlyMap<string, Cookie>,
  url: URL,
  init: RequestInit = {},
): RequestInit {
  const headers = new Headers(init.headers);
  const ownLine = headers.get("cookie") ?? "";
  const ownNames = ownLine.split(";").map((pair) => pair.split("=")[0]?.trim());
  const cookies = [...jar].filter(
    ([name, cookie]) => !ownNames.includes(name) && isFor(cookie, url),
  );
  const pairs = cookies.map(([name, { value }]) => `${name}=${value}`);
  const line = [ownLine, ...pairs].filter((pair) => pair !== "").join("; ");
  if (line !== "") headers.set("cookie", line);
  return { ...init, headers };
}

/** RFC 6265 §5.1.4, and its `Secure`. */
function isFor({ path, isSecure }: Cookie, { pathname, protocol }: URL): boolean {
  const isBelow = pathname === path || pathname.startsWith(path.endsWith("/") ? path : `${path}/`);
  return isBelow && (!isSecure || protocol === "https:");
}

function store(jar: Map<string, Cookie>, line: string, { pathname }: URL): void {
  if (line.length > maxCookieSize) return;
  const [[name, value] = ["", ""], ...others] = line.split(";").map(readPair);
  if (!/^[\w!#$%&'*+\-.^`|~]+$/.test(name) || /[\s,]/.test(value)) return;
  const attributes = new Map(others.map(([key, text]) => [key.toLowerCase(), text]));
  const [maxAge, expires] = [attributes.get("max-age"), attributes.get("expires")];
  const isOver =
    maxAge === undefined ? Date.parse(expires ?? "") < Date.now() : Number(maxAge) <= 0;
  jar.delete(name);
  if (isOver || jar.size >= maxCookies) return;
  const path = attributes.get("path");
  const folder = pathname.slice(0, Math.max(1, pathname.lastIndexOf("/")));
  const isSecure = attributes.has("secure");
  jar.set(name, { value, path: path?.startsWith("/") ? path : folder, isSecure });
}

function readPair(text: string): readonly [name: string, value: string] {
  const [name = "", ...value] = text.split("=");
  return [name.trim(), value.join("=").trim()];
}
