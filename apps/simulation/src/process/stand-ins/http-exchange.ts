/**
 * Stands for `net/node/http-exchange.ts` of the client: no sockets, but the `fetch` of the simulated process. It is bundled with
 * the product, and imports the product's own modules.
 */
import type { HopExchange } from "../../../../../packages/client/src/net/exchange.ts";
import { createFetchExchange } from "../../../../../packages/client/src/net/fetch-exchange.ts";
import type { OutgoingBody } from "../../../../../packages/client/src/net/outgoing-body.ts";

export function createHttpExchange(): HopExchange {
  return createFetchExchange((input, init) => fetch(input, init), { blobOf: bytesOf });
}

/** All of a body, in memory. A blob would be read in a thread, at a time that no seed decides. */
async function bytesOf({ pieces }: OutgoingBody): Promise<Blob> {
  const chunks: Uint8Array[] = [];
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      chunks.push(piece);
      continue;
    }
    let at = piece.start;
    for await (const chunk of piece.file.chunks(piece.start, piece.end)) {
      piece.seen?.(chunk, at);
      at += chunk.length;
      chunks.push(chunk);
    }
  }
  return Buffer.concat(chunks) as unknown as Blob;
}

export const httpExchange: HopExchange = createHttpExchange();

export function createPublicLookup(): never {
  throw new Error("simulation: names are not looked up");
}

export function ensurePublic(): void {}
