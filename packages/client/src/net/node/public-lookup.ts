import { lookup as systemLookup, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { SluiceError } from "@sluice/core";
import { classifyAddress } from "../../trust/classify-address.ts";

/**
 * A resolver for the `lookup` option of sockets that gives addresses of the public internet or
 * fails with `untrusted`. A host that is an address already is never looked up: see {@link ensurePublic}.
 */
export function createPublicLookup(lookup: typeof systemLookup = systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, "");
      const found: LookupAddress[] = addresses;
      const [first] = found;
      if (!first || found.some(({ address }) => classifyAddress(address) !== "public"))
        return callback(notPublic(hostname), "");
      if (options.all) return callback(null, found);
      return callback(null, first.address, first.family);
    });
  };
}

/** Throws `untrusted` for a host that is an address, and none of the public internet. */
export function ensurePublic(host: string): void {
  const kind = classifyAddress(host);
  if (kind !== undefined && kind !== "public") throw notPublic(host);
}

function notPublic(host: string): SluiceError {
  return new SluiceError(
    "untrusted",
    `client: ${host} is no address of the public internet, where the MCP server is`,
  );
}
