import { read } from "node:fs";
import type { ServerResponse } from "node:http";
import { promisify } from "node:util";

const readAt = promisify(read);

/**
 * Sends bytes `[start, end)` of a file through two reused buffers: one is being written while the
 * other fills. Nothing is checked: it is the ceiling that the real server is held against.
 */
export async function pump(
  response: ServerResponse,
  fd: number,
  range: { readonly start: number; readonly end: number },
  buffers: readonly [Buffer, Buffer],
): Promise<void> {
  const fill = async (buffer: Buffer, position: number): Promise<number> => {
    const wanted = Math.min(buffer.length, range.end - position);
    if (wanted === 0) return 0;
    const { bytesRead } = await readAt(fd, buffer, 0, wanted, position);
    return bytesRead;
  };
  let position = range.start;
  let turn = 0;
  let filled = await fill(buffers[0], position);
  while (filled > 0) {
    const chunk = buffers[turn]!.subarray(0, filled);
    position += filled;
    turn = 1 - turn;
    [filled] = await Promise.all([fill(buffers[turn]!, position), send(response, chunk)]);
  }
  response.end();
}

function send(response: ServerResponse, chunk: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    response.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}
