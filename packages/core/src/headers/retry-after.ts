import { fieldText } from "./field-text.ts";
import { parseHttpDate } from "./http-date.ts";

/**
 * Milliseconds to wait by a `Retry-After` header, from seconds or from a date in any of the three
 * forms of RFC 9110 §5.6.7. A date in the past is 0. `undefined` when it is absent or malformed.
 * `now` is unix milliseconds.
 */
export function parseRetryAfter(
  header: string | null | undefined,
  now: number,
): number | undefined {
  const text = fieldText(header).trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1_000;
  const time = parseHttpDate(text, now);
  return time === undefined ? undefined : Math.max(0, time - now);
}
