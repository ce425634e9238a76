import { SluiceError } from "@sluice/core";
import { boundaryOf, createFormValidator, formTypeOf } from "../src/receive/form-validator.ts";
import type { CreateParser } from "../src/receive/form-parser.ts";

/** A part of a form as it is sent; bytes as Latin-1 text. */
export interface SentPart {
  readonly name?: string;
  readonly fileName?: string;
  readonly type?: string;
  readonly content: string;
}

/** A form as browsers write it. */
export function formOf(boundary: string, parts: readonly SentPart[]): string {
  const written = parts.map(({ name = "file", fileName = "a.bin", type, content }) => {
    const headers = [`Content-Disposition: form-data; name="${name}"; filename="${fileName}"`];
    if (type !== undefined) headers.push(`Content-Type: ${type}`);
    return `--${boundary}\r\n${headers.join("\r\n")}\r\n\r\n${content}\r\n`;
  });
  return `${written.join("")}--${boundary}--\r\n`;
}

/** What validator and parser make of a form that comes in the given pieces: contents of its files, or the error. */
export async function takeApart(
  createParser: CreateParser,
  contentType: string,
  body: readonly Uint8Array[],
  maxParts = 3,
): Promise<string[] | SluiceError> {
  const contents: string[] = [];
  let ended = 0;
  try {
    const boundary = boundaryOf(contentType);
    const validator = createFormValidator(boundary, maxParts);
    const parser = createParser(formTypeOf(boundary), () => {
      const at = contents.push("") - 1;
      if (at >= validator.parts.length)
        throw new SluiceError("invalid_argument", "form: the parser found a part that is none");
      return {
        data: (chunk) => void (contents[at] += Buffer.from(chunk).toString("latin1")),
        end: () => void ended++,
      };
    });
    try {
      for (const piece of body) {
        validator.check(piece);
        await parser.write(piece);
      }
      validator.end();
      await parser.end();
    } catch (error) {
      parser.destroy();
      throw error;
    }
    if (contents.length !== validator.parts.length || ended !== contents.length)
      throw new SluiceError("invalid_argument", "form: the parser passed over a part");
    return contents;
  } catch (error) {
    return error as SluiceError;
  }
}

/** Text as bytes, cut at the given places or nowhere. */
export function pieces(text: string, cuts: readonly number[] = []): Uint8Array[] {
  const bytes = Buffer.from(text, "latin1");
  const places = [
    0,
    ...cuts.filter((at) => at < bytes.length).toSorted((a, b) => a - b),
    bytes.length,
  ];
  return places.slice(1).map((end, at) => bytes.subarray(places[at], end));
}
