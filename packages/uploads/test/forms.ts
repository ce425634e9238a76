import { SluiceError } from "@sluice/core";
import {
  boundaryOf,
  createFormReader,
  type PartFacts,
  type PartReceiver,
} from "../src/receive/form-reader.ts";

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

/** Reads a form that comes in the given pieces: contents of its files, or the error. */
export async function takeApart(
  contentType: string,
  body: readonly Uint8Array[],
  { maxParts = 3, createReader = createFormReader } = {},
): Promise<string[] | SluiceError> {
  const contents: string[] = [];
  let ended = 0;
  const receive = ({ fileName }: PartFacts): PartReceiver => {
    const at = contents.push("") - 1;
    return {
      // some wait and some do not
      data(bytes) {
        contents[at] += Buffer.from(bytes).toString("latin1");
        return fileName === "b" ? Promise.resolve() : undefined;
      },
      end: () => void ended++,
    };
  };
  try {
    const reader = createReader(boundaryOf(contentType), maxParts, receive);
    for (const piece of body) await reader.write(piece);
    reader.end();
    if (ended !== contents.length) throw new Error("form: a part has no end");
    return contents;
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return error;
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
