import {
  formatContentDisposition,
  parseContentDisposition,
  readSentDisposition,
} from "@sluice/core/internal";

/**
 * The value of a header field in the form of its specification, where servers often write it in another: `Location` with blanks
 * or other bytes than ASCII, and the name of a file in UTF-8, in RFC 2047, with bare backslashes or without its quotes. Each
 * character of `value` is a byte. Any other field, and one that cannot be read, stays as it is.
 */
export function repairField(name: string, value: string): string {
  const field = name.toLowerCase();
  if (field === "location") return value.replaceAll(/[ \x80-\xff]/g, percentEncoded);
  return field === "content-disposition" ? repairDisposition(value) : value;
}

function percentEncoded(byte: string): string {
  return `%${byte.charCodeAt(0).toString(16).toUpperCase()}`;
}

function repairDisposition(value: string): string {
  const [asWritten] = parseContentDisposition(value)?.fileNames ?? [];
  const [repaired] = readSentDisposition(quoteName(utf8Text(value)))?.fileNames ?? [];
  // the folders of a path are those of another machine
  const baseName = repaired?.split(/[\\/]/).at(-1) ?? "";
  return baseName === "" || repaired === asWritten ? value : formatContentDisposition(baseName);
}

function utf8Text(value: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(value, "latin1"));
  } catch {
    // Latin-1, as RFC 2616 had it
    return value;
  }
}

/** A name without quotes goes on to the next semicolon, as browsers read it. */
function quoteName(text: string): string {
  return text.replace(
    /(;[\t ]*filename[\t ]*=)[\t ]*([^"\t ;][^";]*)(?=;|$)/i,
    (_, start: string, name: string) => `${start}"${name.trimEnd()}"`,
  );
}
