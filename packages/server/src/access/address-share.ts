/**
 * Name of the share that an address belongs to: an IPv4 address by itself, an IPv6 address with all of its /64, which one
 * client has to itself. `undefined` without an address.
 */
export function addressShare(address: string | undefined): string | undefined {
  if (address === undefined || !address.includes(":")) return address;
  const [head = "", tail = ""] = address.split("::", 2);
  const [left, right] = [head, tail].map((text) => (text === "" ? [] : text.split(":")));
  const zeros = Array<string>(Math.max(0, 8 - left!.length - right!.length)).fill("0");
  return `${[...left!, ...zeros, ...right!].slice(0, 4).join(":")}::/64`;
}
