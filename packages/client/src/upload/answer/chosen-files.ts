import { SluiceError } from "@sluice/core";
import { isAccepted } from "@sluice/core/internal";
import type { FileSource } from "../source/file-source.ts";
import type { RequestedField, ReceivedFileRequest } from "./file-request.ts";

/** A value of an ordinary form field. */
export type FormValue = string | number | boolean | readonly string[];

/** The user's answer to a request for files. */
export type FilesAnswer<Picked> =
  | {
      readonly action: "accept";
      /** Files by field. */
      readonly files: Readonly<Record<string, readonly Picked[]>>;
      /** Values of the other fields, by name. */
      readonly values?: Readonly<Record<string, FormValue>>;
    }
  | { readonly action: "decline" }
  | { readonly action: "cancel" };

/**
 * Throws unless the files are what the request asks for: `invalid_argument` for a field that does not
 * exist, is left out or has too many, `too_large`, and `unsupported` for a type that the field does
 * not accept. The message names fields, never files: a server may see it.
 */
export function ensureChosen(
  { fields, values, requiredValues }: ReceivedFileRequest,
  files: ReadonlyMap<string, readonly FileSource[]>,
  given: Readonly<Record<string, FormValue>>,
): void {
  const fieldNames = new Set(fields.map(({ name }) => name));
  for (const name of files.keys())
    if (!fieldNames.has(name)) throw wrong(name, "the server asked for no such file");
  for (const field of fields) ensureField(field, files.get(field.name) ?? []);
  for (const name of Object.keys(given))
    if (!Object.hasOwn(values, name)) throw wrong(name, "the server asked for no such value");
  for (const name of requiredValues)
    if (!Object.hasOwn(given, name)) throw wrong(name, "the server needs a value");
}

function ensureField(field: RequestedField, chosen: readonly FileSource[]): void {
  const { name, required, maxFiles, maxBytes, accept } = field;
  if (required && chosen.length === 0) throw wrong(name, "the server needs a file");
  if (chosen.length > maxFiles)
    throw wrong(name, maxFiles === 1 ? "one file only" : `at most ${maxFiles} files`);
  for (const file of chosen) {
    if (file.size > maxBytes)
      throw new SluiceError(
        "too_large",
        `client: field ${JSON.stringify(name)}: a file of more than ${maxBytes} bytes; choose a smaller one`,
        { size: file.size, cause: file.name },
      );
    if (!isAccepted(file, accept))
      throw new SluiceError(
        "unsupported",
        `client: field ${JSON.stringify(name)}: a file of another type than ${accept.join(", ")}`,
        { cause: file.name },
      );
  }
}

function wrong(name: string, why: string): SluiceError {
  return new SluiceError("invalid_argument", `client: field ${JSON.stringify(name)}: ${why}`);
}
