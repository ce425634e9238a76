import { canonicalType } from "./type-names.ts";

/**
 * True when a file may go to a field that accepts these media types (`image/png`), ranges (`image/*`)
 * and file name extensions (`.pdf`), as SEP-1306 §2 lists them. An empty list accepts everything. A
 * name that says nothing of its type, or may be that of a text, may go where any text is asked for: the server looks
 * into the file.
 */
export function isAccepted(
  { name, mimeType }: { readonly name: string; readonly mimeType: string },
  accept: readonly string[],
): boolean {
  if (accept.length === 0) return true;
  const type = canonicalType(mimeType);
  const lower = name.toLowerCase();
  const mayBeText = name !== "" && (type === "application/octet-stream" || isTextName(name));
  return accept.some((entry) => {
    const pattern = entry.trim().toLowerCase();
    if (pattern.startsWith(".")) return pattern.length > 1 && lower.endsWith(pattern);
    if (pattern === "*/*" || (mayBeText && anyText.has(pattern))) return true;
    if (pattern.endsWith("/*")) return type.startsWith(pattern.slice(0, -1));
    return type === canonicalType(pattern);
  });
}

const anyText: ReadonlySet<string> = new Set(["text/*", "text/plain"]);

/**
 * Extensions that texts also have, whatever the table of media types says: source code, notes,
 * keys, catalogues.
 */
const textExtensions: ReadonlySet<string> = new Set(
  "ac cat cu dart dir dot key mpp msg mts nb org pot prc prf pub rs sc st stp ts vhd".split(" "),
);

/** Whether names with this extension are those of texts as well. */
export function isTextName(name: string): boolean {
  return textExtensions.has(extensionOf(name));
}

/** Extension of a name in lower case, without the dot; empty if there is none. */
export function extensionOf(name: string): string {
  const at = name.lastIndexOf(".");
  return at <= 0 ? "" : name.slice(at + 1).toLowerCase();
}
