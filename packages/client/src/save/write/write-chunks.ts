import type { FileHandle } from "node:fs/promises";

/**
 * Most bytes of one write. For more, Linux keeps larger pieces of its page cache together, and
 * looks for memory to make them of: where that is scarce, or has to come back from the host of a
 * virtual machine, a write took up to ten times as long. Below this it hardly matters.
 */
export const mostWriteBytes: number = 192 * 1_024;

/** Writes chunks one after the other from an offset on, and tells after each write where the next one begins. */
export async function writeChunks(
  handle: FileHandle,
  chunks: readonly Uint8Array[],
  at: number,
  onWritten: (position: number) => void,
): Promise<void> {
  let rest = chunks;
  let position = at;
  while (rest.length > 0) {
    const { bytesWritten } = await handle.writev(upTo(mostWriteBytes, rest), position);
    position += bytesWritten;
    onWritten(position);
    rest = from(bytesWritten, rest);
  }
}

/** The first `bytes` bytes of the chunks. */
function upTo(bytes: number, chunks: readonly Uint8Array[]): Uint8Array[] {
  const some: Uint8Array[] = [];
  for (const chunk of chunks) {
    if (bytes === 0) break;
    const part = chunk.length > bytes ? chunk.subarray(0, bytes) : chunk;
    some.push(part);
    bytes -= part.length;
  }
  return some;
}

/** What comes after the first `bytes` bytes of the chunks. */
function from(bytes: number, chunks: readonly Uint8Array[]): Uint8Array[] {
  const rest: Uint8Array[] = [];
  for (const chunk of chunks) {
    if (chunk.length > bytes) rest.push(bytes > 0 ? chunk.subarray(bytes) : chunk);
    bytes = Math.max(0, bytes - chunk.length);
  }
  return rest;
}
