import { SluiceError } from "../errors/error.ts";

/** True for the names of one's own machine, with or without the brackets of a URL. */
export function isLoopbackHost(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);
}

/** The eight groups of an IPv6 address without a zone, as they are written. */
export function groupsOfV6(address: string): string[] {
  const [head = "", tail = ""] = address.split("::", 2);
  const [left = [], right = []] = [head, tail].map((text) => (text === "" ? [] : text.split(":")));
  const zeros = Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0");
  return [...left, ...zeros, ...right];
}

/** True for a URL over which secrets would travel to another machine as everyone on the way can read them. */
export function isClearUrl({ protocol, hostname }: URL): boolean {
  return (protocol === "http:" || protocol === "ws:") && !isLoopbackHost(hostname);
}

/** `origin` of the errors of {@link ensureConfidential}. */
export const clearOrigin = "clear";

/**
 * Throws `untrusted` if credentials would travel to another machine in the clear. `operation`
 * begins the message.
 */
export function ensureConfidential(operation: string, url: URL): void {
  if (!isClearUrl(url)) return;
  const secure = url.protocol.replace(":", "s:");
  throw new SluiceError(
    "untrusted",
    `${operation}: credentials would travel to ${url.host} in the clear; use the server's ${secure} address`,
    { origin: clearOrigin },
  );
}
