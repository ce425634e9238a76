/** What a number of runs gave: the median, the range, and how many they were. */
export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly n: number;
}

/** What one run of one subject gave, by name of the quantity. */
export type Sample = Readonly<Record<string, number>>;

/** Median, range and count of `values`; `undefined` when there are none. */
export function summarise(values: readonly number[]): Summary | undefined {
  if (values.length === 0) return undefined;
  const sorted = values.toSorted((a, b) => a - b);
  return {
    median: quantile(sorted, 0.5),
    min: sorted[0]!,
    max: sorted.at(-1)!,
    n: sorted.length,
  };
}

/** Value below which the share `q` of the ascending, non-empty `sorted` lies; interpolates between neighbours. */
export function quantile(sorted: readonly number[], q: number): number {
  const place = (sorted.length - 1) * q;
  const below = sorted[Math.floor(place)]!;
  const above = sorted[Math.ceil(place)]!;
  return below + (above - below) * (place - Math.floor(place));
}

/** One quantity over all runs of a subject, times `factor`. */
export function across(
  samples: readonly Sample[] | undefined,
  key: string,
  factor = 1,
): Summary | undefined {
  const values = (samples ?? []).map((sample) => sample[key] ?? Number.NaN);
  return summarise(values.filter(Number.isFinite).map((value) => value * factor));
}

/**
 * Quotient `samples / baseline` of one quantity, round by round: both ran within the same few
 * seconds, so what slows the machine down for a while cancels out.
 */
export function ratio(
  samples: readonly Sample[] | undefined,
  baseline: readonly Sample[] | undefined,
  key: string,
): Summary | undefined {
  const quotients = (samples ?? []).map((sample, round) => {
    const other = baseline?.[round]?.[key];
    return other === undefined ? Number.NaN : sample[key]! / other;
  });
  return summarise(quotients.filter((quotient) => Number.isFinite(quotient)));
}
