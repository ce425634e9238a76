/**
 * Pairs of two lists with each value of both: as many as the longer list has. All pairs under SLUICE_DEEP=1; `what` they
 * are is printed where some are left out. For rules that hold for each value, and that no pair breaks alone.
 */
export function covering<One, Other>(
  what: string,
  ones: readonly One[],
  others: readonly Other[],
): readonly (readonly [One, Other])[] {
  if (process.env["SLUICE_DEEP"] !== undefined)
    return ones.flatMap((one) => others.map((other) => [one, other] as const));
  console.info(`${what}: each value once; all pairs are for SLUICE_DEEP=1`);
  return Array.from(
    { length: Math.max(ones.length, others.length) },
    (_, at) => [ones[at % ones.length]!, others[at % others.length]!] as const,
  );
}
