import { isTextName } from "./text-names.ts";

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
  const type = mimeType.split(";", 1)[0]!.trim().toLowerCase();
  const lower = name.toLowerCase();
  const mayBeText = name !== "" && (type === "application/octet-stream" || isTextName(name));
  return accept.some((entry) => {
    const wanted = entry.trim().toLowerCase();
    if (wanted.startsWith(".")) return wanted.length > 1 && lower.endsWith(wanted);
    if (wanted === "*/*" || (wanted === "text/*" && mayBeText)) return true;
    if (wanted.endsWith("/*")) return type.startsWith(wanted.slice(0, -1));
    return type === wanted;
  });
}
