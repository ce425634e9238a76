import type { ServerResponse } from "node:http";
import { ConcurrencyLimiter } from "@sluice/core/async";
import { addressShare } from "@sluice/server/transport";
import { ensureLimit } from "../endpoint/ensure-arguments.ts";

/**
 * Makes the limiter of requests under way, by address: true where one more may be answered, which counts until its
 * response is closed. Throws a `RangeError` for a limit that is no whole number from 1.
 */
export function createRequestLimiter(
  limit: number | undefined,
): (res: ServerResponse, address: string | undefined) => boolean {
  if (limit === undefined) return () => true;
  ensureLimit("toNodeHandler", limit);
  const requests = new ConcurrencyLimiter();
  return (res, address) => {
    const share = addressShare(address);
    if (share === undefined || res.closed) return true;
    const release = requests.take(share, limit);
    if (release) res.once("close", release);
    return release !== undefined;
  };
}
