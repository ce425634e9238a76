/** What a field accepts, for people: "PNG, images and .csv". Empty when it accepts everything. */
export function acceptText(accept: readonly string[]): string {
  const words = [...new Set(accept.map(wordOf))];
  if (words.includes("any file")) return "";
  const last = words.pop();
  if (last === undefined) return "";
  return words.length === 0 ? last : `${words.join(", ")} and ${last}`;
}

const kinds: Readonly<Record<string, string>> = {
  "*/*": "any file",
  "image/*": "images",
  "audio/*": "audio",
  "video/*": "videos",
  "text/*": "text",
  "text/plain": "plain text",
  "image/jpeg": "JPEG",
  "image/svg+xml": "SVG",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word",
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "Excel",
  "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PowerPoint",
};

function wordOf(entry: string): string {
  const type = entry.trim().toLowerCase();
  const kind = Object.hasOwn(kinds, type) ? kinds[type] : undefined;
  if (kind !== undefined) return kind;
  const [, subtype = ""] = type.split("/");
  // short names of types are what people call them: PDF, PNG, CSV
  return /^[a-z0-9]{1,6}$/.test(subtype) ? subtype.toUpperCase() : type;
}

/** A number of bytes for people: "740 kB", "1.2 GB". Decimal, as files are shown elsewhere. */
export function sizeText(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits).replace(/\.0$/, "")} ${units[unit]}`;
}
