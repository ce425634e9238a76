/** Where an IP address lies: the public internet, this host, or anything in between. */
export type AddressClass = "public" | "loopback" | "private";

/**
 * Classifies an IP address as the operating system or a parsed URL spells it (brackets allowed). `public` is global
 * unicast only: every special-purpose block of IANA is out, and so are translated and tunnelled forms of IPv4, and the
 * host-agent address 168.63.129.16. `undefined` if the text is not an IP address.
 */
export function classifyAddress(text: string): AddressClass | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  const v4 = parseV4(bare);
  if (v4 !== undefined) return classifyV4(v4);
  const v6 = parseV6(bare);
  return v6 && classifyV6(v6);
}

/** Addresses that a request may connect to: those of the public internet, or any. */
export type AddressScope = "public" | "any";

/**
 * What an MCP server names may lie where the server lies. `address` is the one that answered, if the platform tells.
 */
interface ServerPlace {
  readonly endpoint: URL;
  readonly address?: string | undefined;
}

/** Addresses that a request may connect to, or the server that named where it goes. */
export type HopScope = AddressScope | ServerPlace;

/** A public server must not send a client to an address that lies deeper inside than its own. */
export function scopeOf(scope: HopScope): AddressScope {
  if (typeof scope === "string") return scope;
  const { hostname } = scope.endpoint;
  const { address = hostname } = scope;
  const kind = classifyAddress(address) ?? (hostname === "localhost" ? "loopback" : "public");
  return kind === "public" ? "public" : "any";
}

function classifyV4(address: number): AddressClass {
  if (address >>> 24 === 127) return "loopback";
  return specialV4.some(([base, bits]) => (address ^ base) >>> (32 - bits) === 0)
    ? "private"
    : "public";
}

function classifyV6(groups: readonly number[]): AddressClass {
  const [g0 = 0, g1 = 0, g2 = 0, g3 = 0, g4 = 0, g5 = 0, g6 = 0, g7 = 0] = groups;
  const highZero = (g0 | g1 | g2 | g3 | g4) === 0;
  if (highZero && g5 === 0xffff) return classifyV4(((g6 << 16) | g7) >>> 0);
  if (highZero && (g5 | g6) === 0 && g7 === 1) return "loopback";
  if (g0 >>> 13 !== 1) return "private"; // outside 2000::/3
  if (g0 === 0x2001 && g1 < 0x200) return "private"; // 2001::/23, protocol assignments and Teredo
  if (g0 === 0x2001 && g1 === 0xdb8) return "private"; // documentation
  if (g0 === 0x2002) return "private"; // 6to4 hides an IPv4 address
  if (g0 === 0x3fff && g1 < 0x1000) return "private"; // documentation
  return "public";
}

// IANA IPv4 Special-Purpose Address Registry, multicast, and the platform agent of a large cloud
const specialV4: readonly (readonly [base: number, bits: number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.31.196.0", 24],
  ["192.52.193.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["192.175.48.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
].map(([base, bits]) => [parseV4(base as string) as number, bits as number]);

function parseV4(text: string): number | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (!match) return undefined;
  let address = 0;
  for (const octet of match.slice(1)) {
    if (Number(octet) > 255) return undefined;
    address = address * 256 + Number(octet);
  }
  return address;
}

function parseV6(text: string): number[] | undefined {
  const tail = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (tail) {
    const v4 = parseV4(tail[2] as string);
    if (v4 === undefined) return undefined;
    return parseV6(`${tail[1]}${(v4 >>> 16).toString(16)}:${(v4 & 0xffff).toString(16)}`);
  }
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head = [], rest = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const missing = 8 - head.length - rest.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...Array.from({ length: missing }, () => "0"), ...rest];
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return groups.map((group) => Number.parseInt(group, 16));
}
