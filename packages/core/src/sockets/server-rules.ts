import type { LookupAddress } from "node:dns";
import { isIP, type LookupFunction } from "node:net";

/** What a program was told of the servers that it connects to, as the options of curl tell it. */
export interface ServerRules {
  /** Certificates of authorities in PEM, for every connection; in place of those of the system. */
  readonly ca?: string | undefined;
  /** What one server is shown, and no other. */
  readonly identity?: ServerIdentity | undefined;
  /** Addresses by `host:port`, in place of those that DNS has for the name. They are the user's word: no guard checks them. */
  readonly addresses?: ReadonlyMap<string, readonly string[]> | undefined;
}

/** The certificate of a client and its key in PEM, for the server at `host:port`. */
interface ServerIdentity {
  readonly place: string;
  readonly cert: string;
  readonly key: string;
}

/** Options of a connection, for Node's `tls.connect` and `net.connect`. */
interface RuledOptions {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly lookup?: LookupFunction;
}

let rules: ServerRules | undefined;

/**
 * Sets the rules for every connection that this process opens from now on, to servers and for bytes; `undefined` ends them. For
 * a program whose user chooses them, not for a library: they hold for the whole process, as proxies of the environment do.
 */
export function setServerRules(next: ServerRules | undefined): void {
  rules = next;
}

/** True while there are rules: connections of Node's own `fetch` do not follow them. */
export function hasServerRules(): boolean {
  return rules !== undefined;
}

/** `host:port`, as rules name a server: in lower case, and without the brackets of an IPv6 address. */
export function placeOf(host: string, port: number | string): string {
  return `${bareHost(host).toLowerCase()}:${port}`;
}

/** A host without the brackets of a URL. */
export function bareHost(host: string): string {
  return host.replace(/^\[|\]$/g, "");
}

/** The port of a URL, even if it is that of its scheme. */
export function portOf({ protocol, port }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" || protocol === "wss:" ? 443 : 80;
}

/** Options by the rules for a connection to a host; empty if no rule is about it. */
export function ruledOptions(host: string, port: number | string): RuledOptions {
  if (!rules) return {};
  const place = placeOf(host, port);
  const { ca, identity, addresses } = rules;
  const resolved = addresses?.get(place);
  return {
    ...(ca !== undefined && { ca }),
    ...(identity?.place === place && { cert: identity.cert, key: identity.key }),
    ...(resolved && { lookup: lookupIn(resolved) }),
  };
}

/** A resolver that knows one host. */
function lookupIn(addresses: readonly string[]): LookupFunction {
  const entries: LookupAddress[] = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_hostname, { all }, callback) => {
    const [first] = entries;
    process.nextTick(() => {
      if (all || !first) callback(null, entries);
      else callback(null, first.address, first.family);
    });
  };
}
