import { groupsOfV6 } from "@sluice/core/internal";

/** {@link ClientLimits} with the defaults filled in. */
export interface CompleteLimits {
  readonly perPrincipal: number;
  /** `undefined`: callers without a principal have no share, and count for the process only. */
  readonly perAddress: number | undefined;
  readonly perProcess: number;
}

/** From what a caller takes. */
export interface ClientShare {
  readonly name: string;
  readonly limit: number;
}

/** The share of a principal's tag, else of an address where addresses have one. */
export function shareOf(
  { perPrincipal, perAddress }: Omit<CompleteLimits, "perProcess">,
  principal: string | undefined,
  address: string | undefined,
): ClientShare | undefined {
  if (principal !== undefined) return { name: `principal ${principal}`, limit: perPrincipal };
  if (perAddress === undefined || address === undefined) return undefined;
  return { name: `address ${addressShare(address)}`, limit: perAddress };
}

/**
 * Name of the share that an address belongs to: an IPv4 address by itself, an IPv6 address with all of its /64, which one
 * client has to itself. `undefined` without an address.
 */
export function addressShare(address: string | undefined): string | undefined {
  if (address === undefined || !address.includes(":")) return address;
  return `${groupsOfV6(address).slice(0, 4).join(":")}::/64`;
}
