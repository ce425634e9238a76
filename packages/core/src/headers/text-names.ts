/**
 * Extensions that texts have, too, whatever else the table of media types says: source code, notes, keys, catalogues.
 */
const textExtensions: ReadonlySet<string> = new Set(
  "ac cat cu dart dir dot key mpp msg mts nb org pot prc prf pub rs sc st stp ts vhd".split(" "),
);

/** Whether names with this extension are those of texts as well. */
export function isTextName(name: string): boolean {
  return textExtensions.has(extensionOf(name));
}

/** Extension of a name in lower case, without the dot; empty where there is none. */
export function extensionOf(name: string): string {
  const at = name.lastIndexOf(".");
  return at <= 0 ? "" : name.slice(at + 1).toLowerCase();
}
