/**
 * Stands for `net/node/http-exchange.ts` of the client: no sockets, but the `fetch` of the simulated process. It is bundled with
 * the product, and imports the product's own modules.
 */
import type { HopExchange } from "../../../../../packages/client/src/net/exchange.ts";
import { createFetchExchange } from "../../../../../packages/client/src/net/fetch-exchange.ts";
import { blobOf } from "../../../../../packages/client/src/net/outgoing-body.ts";

export function createHttpExchange(): HopExchange {
  return createFetchExchange((input, init) => fetch(input, init), { blobOf });
}

export const httpExchange: HopExchange = createHttpExchange();

export function createPublicLookup(): never {
  throw new Error("simulation: names are not looked up");
}

export function ensurePublic(): void {}
