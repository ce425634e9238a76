import type { ServerResponse } from "node:http";
import { ConcurrencyLimiter, readLimits, type ClientLimits } from "@sluice/core/internal";
import {
  addressShare,
  createByteAccount,
  type ByteLease,
  type RequestNotes,
} from "@sluice/server/internal";

/** The client of a request, whose bytes are counted together. */
export interface HttpClient {
  readonly name: string;
  /** It has an access token; else it is an address. */
  readonly isPrincipal: boolean;
}

/** Bytes of JSON that every request may have, whatever others have in progress. */
export const smallJsonBytes: number = 256 * 1024;

/**
 * The account of what requests of one handler have beyond {@link smallJsonBytes}: 16 MiB for one client and 64 MiB for
 * all; each byte counts from its arrival until the response is closed. A request that is alone may have more.
 */
export function createLargeJsonLeases(): (
  res: ServerResponse,
  client: HttpClient | undefined,
) => ByteLease {
  const account = createByteAccount(64 * mib);
  return (res, client) => {
    const lease = account.open(client && { name: client.name, limit: 16 * mib });
    if (res.closed) lease.release();
    else res.once("close", () => lease.release());
    return lease;
  };
}

/** What is noted of a request whose answer is sent here. */
export type AnswerNotes = Required<Pick<RequestNotes, "sentListener">> & {
  readonly unsent: ByteLease;
};

/** The account of one handler: opens the part of one response, which is given back when it is closed. */
export function createUnsentLeases(
  limits: ClientLimits | undefined,
): (res: ServerResponse, client: HttpClient | undefined) => AnswerNotes {
  const { perPrincipal, perAddress, perProcess } = readLimits(
    "toNodeHandler: bufferedBytes",
    limits,
    { perPrincipal: 64 * mib, perAddress: 64 * mib, perProcess: 256 * mib },
  );
  const account = createByteAccount(perProcess);
  return (res, client) => {
    const unsent = account.open(
      client && { name: client.name, limit: client.isPrincipal ? perPrincipal : perAddress },
    );
    const releases = new Set<() => void>();
    let isOver = res.closed;
    const close = (): void => {
      isOver = true;
      unsent.release();
      for (const release of releases) release();
      releases.clear();
    };
    if (isOver) unsent.release();
    // "close" comes when the network has taken the last byte, and when it never will
    else res.once("close", close);
    const onSent = (_id: string | number, release: () => void): void => {
      if (isOver) release();
      else releases.add(release);
    };
    return { sentListener: { onSent }, unsent };
  };
}

const mib = 2 ** 20;

/**
 * Limits the requests in progress by address: true if one more may be answered, which counts until its
 * response is closed.
 */
export function createRequestGate(
  limit: number | undefined,
): (res: ServerResponse, address: string | undefined) => boolean {
  if (limit === undefined) return () => true;
  const requests = new ConcurrencyLimiter();
  return (res, address) => {
    const share = addressShare(address);
    if (share === undefined || res.closed) return true;
    const release = requests.take(share, limit);
    if (release) res.once("close", release);
    return release !== undefined;
  };
}
