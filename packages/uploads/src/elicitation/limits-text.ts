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
