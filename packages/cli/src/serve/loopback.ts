import { BlockList, isIP } from "node:net";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** True for a host name or address that only this machine can reach. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "").toLowerCase();
  const family = isIP(name);
  if (family === 0) return name === "localhost";
  return loopback.check(name, family === 6 ? "ipv6" : "ipv4");
}
