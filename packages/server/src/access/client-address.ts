import type { IncomingMessage } from "node:http";
import { isIPv4, isIPv6, type Socket } from "node:net";
import proxyAddr from "proxy-addr";

/**
 * Makes the function that gives the address of the client of a `node:http` request: IPv4 in dotted form (even if the
 * socket has it as IPv6), or IPv6 in its canonical form without a zone; `undefined` if the socket has none.
 * `proxyHops` is the number of trusted proxies in front, each of which appends to `X-Forwarded-For`; the field is
 * believed for that many entries from its end, and not read at all for 0. An entry that is not an address, and all
 * left of it, is not believed.
 */
export function createClientAddress(
  proxyHops: number,
): (request: IncomingMessage) => string | undefined {
  if (proxyHops === 0) return ({ socket }) => socketAddress(socket);
  return (request) => {
    const [nearest, ...forwarded] = proxyAddr.all(request, (_address, hop) => hop < proxyHops);
    let address = readAddress(nearest ?? "");
    for (const entry of forwarded) {
      const further = readAddress(entry);
      if (further === undefined) break;
      address = further;
    }
    return address;
  };
}

/** Some proxies also append the port. */
const withPort = /^(?:(?<v4>[\d.]+):\d{1,5}|\[(?<v6>[\da-f:.]+)\](?::\d{1,5})?)$/i;

const read = new WeakMap<Socket, string>();

/** The address of a socket, in the same form. It is read once for all requests of a connection. */
export function socketAddress(socket: Socket): string | undefined {
  const knownAddress = read.get(socket);
  if (knownAddress !== undefined) return knownAddress;
  const address = readAddress(socket.remoteAddress ?? "");
  if (address !== undefined) read.set(socket, address);
  return address;
}

function readAddress(text: string): string | undefined {
  const groups = text.length > 64 ? undefined : withPort.exec(text)?.groups;
  const [address = ""] = (groups?.["v4"] ?? groups?.["v6"] ?? text).split("%", 1);
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return undefined;
  const canonical = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const mapped = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(canonical);
  if (!mapped) return canonical;
  const [high, low] = [Number.parseInt(mapped[1]!, 16), Number.parseInt(mapped[2]!, 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}
