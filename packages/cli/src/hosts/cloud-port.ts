/**
 * A warning for an address that claude.ai does not reach: it opens only port 443. `undefined` for others, and for names
 * that only a private network has.
 */
export function portWarning({ protocol, hostname, host, port }: URL): string | undefined {
  // URLs leave the default port out
  if (protocol !== "https:" || port === "" || !isPublicName(hostname)) return undefined;
  return `sluice: warning: ${host} is not on port 443, the only one that claude.ai reaches; other hosts are not affected`;
}

/** A name of DNS, not an address, outside of the domains reserved for private networks and tests. */
function isPublicName(hostname: string): boolean {
  const name = hostname.toLowerCase();
  return (
    /\.[a-z][a-z0-9-]*$/.test(name) &&
    !/\.(?:local|localhost|internal|lan|test|home\.arpa)$/.test(name)
  );
}
