import { sanitizeFileName } from "./file-name.ts";

/**
 * A command line that saves a URL under a file name. With `-OJ` it replaces no file, and supports
 * only ASCII names: any other name is written out.
 */
export function curlLine(url: string, name: string): string {
  const written = sanitizeFileName(name);
  // signs that are not seen make no other name: that of a file of the reader, which -o would replace
  if (/^[\x20-\x7e\p{Default_Ignorable_Code_Point}]*$/u.test(written)) return `curl -fLOJ '${url}'`;
  return `curl -fL -o '${written.replaceAll("'", "'\\''")}' '${url}'`;
}
