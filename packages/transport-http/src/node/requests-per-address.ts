import type { ServerResponse } from "node:http";
import { addressShare } from "@sluice/server/transport";

/**
 * Makes the counter of requests that are being answered, by address: true where there is room for one more, whose place is
 * given back when its response is closed. A limit that is no whole number from 1 is a `RangeError`.
 */
export function createAddressPlaces(
  limit: number | undefined,
): (res: ServerResponse, address: string | undefined) => boolean {
  if (limit === undefined) return () => true;
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new RangeError(`toNodeHandler: ${limit} is no limit; pass a whole number from 1`);
  const held = new Map<string, number>();
  return (res, address) => {
    const share = addressShare(address);
    if (share === undefined || res.closed) return true;
    const count = held.get(share) ?? 0;
    if (count >= limit) return false;
    held.set(share, count + 1);
    res.once("close", () => {
      const left = held.get(share)! - 1;
      if (left === 0) held.delete(share);
      else held.set(share, left);
    });
    return true;
  };
}
