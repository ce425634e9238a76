import type { OutgoingBody } from "./outgoing-body.ts";

/** Longest stretch of a file that is read into memory. */
export const stretchBytes: number = 8 * 2 ** 20;

/** A body for `fetch`. Short stretches are read into memory, where they are seen; the platform streams the others. */
export async function blobOf({ pieces }: OutgoingBody): Promise<Blob> {
  const parts: (Uint8Array<ArrayBuffer> | Blob)[] = [];
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      parts.push(piece);
      continue;
    }
    const { file, start, end, seen } = piece;
    if (end - start > stretchBytes && file.blob) {
      parts.push(file.blob(start, end));
      continue;
    }
    let at = start;
    for await (const chunk of file.chunks(start, end)) {
      seen?.(chunk, at);
      at += chunk.length;
      parts.push(chunk.slice());
    }
  }
  return new Blob(parts);
}
