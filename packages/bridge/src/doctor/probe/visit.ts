import { lookup, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import type { Client } from "@modelcontextprotocol/client";
import type { FetchLike } from "@sluice/core";
import type { Dispatcher } from "undici";
import { createConnections } from "../../upstream/connections.ts";
import type { Evidence } from "../evidence.ts";
import type { ByteBudget } from "./watched-fetch.ts";

/** One diagnosis under way: what probes work with. */
export interface Visit {
  readonly evidence: Evidence;
  readonly client: Client;
  readonly dispatcher: Dispatcher;
  readonly fetch: FetchLike;
  /** Headers of every request to the endpoint's origin. */
  readonly headers: Readonly<Record<string, string>>;
  readonly trustedOrigins: readonly string[];
  /** Resource to look at. Default: one of the list. */
  readonly uri: string | undefined;
  readonly watchMs: number;
  /** What failed, where that is known. */
  readonly direction: "download" | "upload" | undefined;
  readonly budget: ByteBudget;
  readonly signal: AbortSignal;
}

/** Milliseconds for one answer. */
export const answerMs = 10_000;

/**
 * Connections of one diagnosis. A name keeps the address that it had first: an answer of the server cannot move it
 * elsewhere. `onCertificate` sees those that are trusted.
 */
export function pinnedConnections(
  onCertificate: (certificate: PeerCertificate) => void,
): Dispatcher {
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
  const addressCache = new Map<string, readonly LookupAddress[]>();
  return (hostname, options, callback) => {
    const give = (addresses: readonly LookupAddress[]): void => {
      const [first] = addresses;
      if (options.all || !first) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    };
    const cachedAddresses = addressCache.get(hostname);
    if (cachedAddresses) return process.nextTick(give, cachedAddresses);
    return lookup(hostname, { all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      if (!addressCache.has(hostname)) addressCache.set(hostname, addresses);
      return give(addressCache.get(hostname) ?? addresses);
    });
  };
}
