import { fieldText } from "./field-text.ts";

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const clock = String.raw`(?<clock>\d\d:\d\d:\d\d)`;
const dateForms = [
  new RegExp(
    String.raw`^[A-Z][a-z]{2}, (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) ${clock} GMT$`,
  ),
  new RegExp(
    String.raw`^[A-Z][a-z]{5,8}, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) ${clock} GMT$`,
  ),
  new RegExp(
    String.raw`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) ${clock} (?<year>\d{4})$`,
  ),
];

/**
 * Unix milliseconds of an HTTP date in any of the three forms of RFC 9110 §5.6.7; `undefined` when
 * it is absent or malformed. `now` is unix milliseconds, and tells the century of two digits.
 */
export function parseHttpDate(header: string | null | undefined, now: number): number | undefined {
  const text = fieldText(header).trim();
  for (const form of dateForms) {
    const found = form.exec(text)?.groups;
    if (!found) continue;
    const month = months.indexOf(found["month"]!);
    const day = Number(found["day"]);
    const midnight = Date.UTC(fullYear(found["year"]!, now), month, day);
    const [hour = 0, minute = 0, second = 0] = found["clock"]!.split(":").map(Number);
    const isDay = month >= 0 && new Date(midnight).getUTCDate() === day;
    // 60 is a leap second
    const isTime = hour < 24 && minute < 60 && second <= 60;
    return isDay && isTime ? midnight + ((hour * 60 + minute) * 60 + second) * 1_000 : undefined;
  }
  return undefined;
}

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

/** Two digits mean the past century when they would lie more than 50 years ahead. */
function fullYear(digits: string, now: number): number {
  if (digits.length === 4) return Number(digits);
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + Number(digits);
  return year > thisYear + 50 ? year - 100 : year;
}
