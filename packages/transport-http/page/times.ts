/** A time in the zone of the browser, as the server writes it in UTC: `2026-11-27 18:04`. */
export function localTime(iso: string): string {
  const time = new Date(iso);
  const local = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16).replace("T", " ");
}

/** The time of day: `18:04`. */
export function clockTime(ms: number): string {
  return localTime(new Date(ms).toISOString()).slice(11);
}
