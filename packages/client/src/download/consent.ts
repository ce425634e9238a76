import { SluiceError } from "@sluice/core";
import { abortable, definedMembers } from "@sluice/core/internal";
import type { StreamFacts, Consent, TransferScale } from "./stream-options.ts";

/** The scale of one or more resources that were asked for. */
export function scaleOf(
  resources: readonly Pick<StreamFacts, "size" | "origin">[],
  to?: string,
): TransferScale {
  const hosts = resources
    .flatMap(({ origin }) => origin ?? [])
    .map((origin) => new URL(origin).host);
  return definedMembers({
    files: resources.length,
    bytes: resources.reduce((sum, { size = 0 }) => sum + size, 0),
    unknownSizes: resources.filter(({ size }) => size === undefined).length,
    from: [...new Set(hosts)],
    to,
  });
}

/**
 * A scale for people: `3 files, 41.2 GB, to ~/Downloads, from example.com`. The text holds host names
 * and the caller's own path, nothing else of a server's choice.
 */
export function formatScale(
  { files, bytes, unknownSizes, from, to }: TransferScale,
  formatBytes: (bytes: number) => string = decimal,
): string {
  const knownText = unknownSizes < files ? [formatBytes(bytes)] : [];
  const unknown =
    unknownSizes > 0
      ? [unknownSizes === files ? "size unknown" : `${unknownSizes} of unknown size`]
      : [];
  return [
    files === 1 ? "1 file" : `${files} files`,
    [...knownText, ...unknown].join(" and "),
    ...(to === undefined ? [] : [`to ${to}`]),
    ...(from.length === 0 ? [] : [`from ${from.join(" and ")}`]),
  ].join(", ");
}

/** Throws `permission_denied` unless `consent` returns true. An abort ends the wait for its answer. */
export async function ensureConsent(
  consent: Consent,
  scale: TransferScale,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const ask = async (): Promise<unknown> => consent(scale);
  const agreed = await abortable(ask(), signal);
  // nothing but a clear yes
  if (agreed !== true)
    throw new SluiceError(
      "permission_denied",
      "client: the transfer was declined; nothing was fetched",
    );
}

const units = ["B", "kB", "MB", "GB", "TB", "PB"] as const;

function decimal(bytes: number): string {
  let value = bytes;
  let unit = 0;
  // 999.95 would print as "1000.0", so it belongs to the next unit already
  while (value >= 999.95 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 || value >= 99.95 ? 0 : 1)} ${units[unit]}`;
}
