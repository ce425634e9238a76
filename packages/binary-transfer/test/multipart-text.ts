import { type PartHeaders, readMultipart } from "@sluice/binary-transfer/internal";

/** A part as it was read. */
export interface ReadPart {
  readonly headers: PartHeaders;
  readonly text: string;
}

/** Bytes in pieces; one character is one byte. */
export function pieces(text: string, size: number): () => Promise<Uint8Array | undefined> {
  const bytes = Buffer.from(text, "latin1");
  let at = 0;
  return async () => {
    if (at >= bytes.length) return undefined;
    at += size;
    return bytes.subarray(at - size, at);
  };
}

/** Every part of a message that comes in pieces of `size` bytes. */
export async function readAll(text: string, boundary: string, size = 7): Promise<ReadPart[]> {
  const reader = readMultipart(pieces(text, size), boundary);
  const parts: ReadPart[] = [];
  for (let part = await reader.next(); part; part = await reader.next()) {
    let content = "";
    for (let chunk = await part.read(); chunk; chunk = await part.read())
      content += Buffer.from(chunk).toString("latin1");
    parts.push({ headers: part.headers, text: content });
  }
  return parts;
}
