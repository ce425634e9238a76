import { problem } from "./problem.ts";
import type { Reply } from "./reply.ts";

/**
 * The refusal of a request by its header fields, names and values in turn as they came: 400 for two `Host` (RFC 9112 §3.2),
 * of which each hop could take another one, and 431 for more than `most` fields. Default of `most`: any number.
 */
export function refuseFields(
  rawHeaders: readonly string[],
  most: number = Infinity,
): Reply | undefined {
  if (rawHeaders.length > 2 * most) return problem(431);
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === "host") hosts++;
  return hosts > 1 ? problem(400) : undefined;
}
