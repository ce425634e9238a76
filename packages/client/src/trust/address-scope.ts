import { classifyAddress } from "./classify-address.ts";

/** Addresses that a request may connect to: those of the public internet, or any. */
export type AddressScope = "public" | "any";

/**
 * Scope of what an MCP server names: a public server must not send a client to an address that lies deeper inside than
 * its own. `address` is the one that answered, where the platform tells.
 */
export function scopeOfServer({ hostname }: URL, address: string = hostname): AddressScope {
  const kind = classifyAddress(address) ?? (hostname === "localhost" ? "loopback" : "public");
  return kind === "public" ? "public" : "any";
}
