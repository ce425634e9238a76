import { lookup, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import type { Dispatcher } from "undici";
import { createConnections } from "../../upstream/connections.ts";
import { answerMs } from "./visit.ts";

/**
 * Connections of one diagnosis. A name keeps the address that it had first: an answer of the server cannot move it
 * elsewhere. `onCertificate` sees those that are trusted.
 */
export function createDispatcher(onCertificate: (seen: PeerCertificate) => void): Dispatcher {
  const tls = {
    checkServerIdentity: (host: string, certificate: PeerCertificate): Error | undefined => {
      onCertificate(certificate);
      return checkServerIdentity(host, certificate);
    },
  };
  return createConnections({
    connectMs: answerMs,
    headersMs: answerMs,
    lookup: lookupOnce(),
    tls,
  });
}

function lookupOnce(): LookupFunction {
  const known = new Map<string, readonly LookupAddress[]>();
  return (hostname, options, callback) => {
    const give = (addresses: readonly LookupAddress[]): void => {
      const [first] = addresses;
      if (options.all || !first) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    };
    const found = known.get(hostname);
    if (found) return process.nextTick(give, found);
    return lookup(hostname, { all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      if (!known.has(hostname)) known.set(hostname, addresses);
      return give(known.get(hostname) ?? addresses);
    });
  };
}
