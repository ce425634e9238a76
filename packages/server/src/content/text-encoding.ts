import { parseMediaType } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { advised } from "../faults/advice.ts";
import { hasBinaryBytes, isPdf, isTextual, knownType } from "./resource-type.ts";

/** The name of an encoding as `TextDecoder` has it. Throws `invalid_argument` with advice for one that it does not know. */
export function encodingNamed(label: string): string {
  const name = knownEncoding(label);
  if (name !== undefined) return name;
  throw advised(
    "invalid_argument",
    "Name an encoding of the WHATWG, such as utf-16le, windows-1252, gbk or shift_jis",
  );
}

function knownEncoding(label: string): string | undefined {
  try {
    return new TextDecoder(label).encoding;
  } catch {
    return undefined;
  }
}

/**
 * The encoding of text that is not UTF-8 without a fault, by its first bytes: what its BOM says, else the charset that storage
 * has, else UTF-8 with bytes that are not. `undefined` for what is not text.
 */
export function findEncoding(info: ObjectInfo, head: Uint8Array): string | undefined {
  const type = knownType(info);
  const { essence, charset } = parseMediaType(type) ?? {};
  if (essence !== undefined && !isTextual(essence)) return undefined;
  const marked = markedEncoding(head);
  if (marked !== undefined) return marked;
  if (hasBinaryBytes(head) || isPdf(head)) return undefined;
  return (charset !== undefined && knownEncoding(charset)) || "utf-8";
}

function markedEncoding([first, second, third, fourth]: Uint8Array): string | undefined {
  // else UTF-32
  if (third === 0 && fourth === 0) return undefined;
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : undefined;
}

/** Text of an encoding in UTF-8; bytes that are not of the encoding become U+FFFD. Ending the iteration ends the source. */
export async function* inUtf8(
  bytes: AsyncIterable<Uint8Array>,
  encoding: string,
): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder(encoding);
  const encoder = new TextEncoder();
  for await (const chunk of bytes) yield encoder.encode(decoder.decode(chunk, { stream: true }));
  yield encoder.encode(decoder.decode());
}
