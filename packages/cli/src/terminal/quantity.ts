const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** A size for people: `0 B`, `999 B`, `1.0 KiB`, `94.3 MiB`, `120 MiB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  // 1,023.95 would print as "1024.0", so it belongs to the next unit already
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** A duration for people: `0.4 s`, `12 s`, `3:07`, `2:00:09`. */
export function formatDuration(ms: number): string {
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const total = Math.round(ms / 1000);
  if (total < 60) return `${total} s`;
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor(total / 60) % 60;
  const seconds = two(total % 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${seconds}` : `${minutes}:${seconds}`;
}

/** Reads `1048576`, `10k`, `1.5M`, `2GiB`: powers of 1024, in bytes; `undefined` for anything else. */
export function parseBytes(text: string): number | undefined {
  const [, number, prefix = ""] = /^(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?$/i.exec(text) ?? [];
  if (number === undefined) return undefined;
  const power = " kmgtp".indexOf(prefix.toLowerCase() || " ");
  const bytes = Math.round(Number(number) * 1024 ** power);
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}
