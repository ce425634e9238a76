/** Deepest nesting of a message, as in `readJson` of @sluice/core. */
const maxLevels = 128;

/** Characters that a value of JSON takes, roughly; `NaN` where it is nested deeper than 128 levels. */
export function sizeOf(value: unknown, level = 0): number {
  if (typeof value === "string") return value.length + 3;
  if (typeof value !== "object" || value === null) return 6;
  if (level >= maxLevels) return Number.NaN;
  let size = 2;
  if (Array.isArray(value)) for (const item of value) size += sizeOf(item, level + 1);
  else
    for (const [name, member] of Object.entries(value))
      size += name.length + 3 + sizeOf(member, level + 1);
  return size;
}
