/** True for the names of one's own machine, with or without the brackets of a URL. */
export function isLoopbackHost(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);
}

/** True for a URL over which secrets would travel to another machine as everyone on the way can read them. */
export function isClearUrl({ protocol, hostname }: URL): boolean {
  return (protocol === "http:" || protocol === "ws:") && !isLoopbackHost(hostname);
}
