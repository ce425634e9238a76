import type { KeyRing } from "@sluice/core";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import type { StorageBackend } from "@sluice/storage";
import { baseUri } from "./site.ts";

/** Makes and tries tokens of one server, without a request for each. */
export interface TokenDesk {
  mint(key: string, count: number): Promise<string[]>;
  /** Looks at what tokens lead to; the statuses. */
  redeem(tokens: readonly string[]): Promise<number[]>;
  /** Name of the key that seals, and of all keys. */
  keys(): Promise<readonly string[]>;
}

/** What all servers at one name are known as. No process listens there: requests name one. */
export const sharedEndpoint = "http://127.0.0.1:9/mcp";

const alice = { issuer: "https://issuer.example", subject: "alice", clientId: "test" };

/** A server of the shared name where everybody is alice, and its desk. */
export function createSharedServer(
  options: Pick<SluiceOptions, "grant" | "stores"> & {
    readonly storage: StorageBackend;
    readonly keys: KeyRing;
  },
): { readonly sluice: Sluice; readonly desk: TokenDesk } {
  const { storage, keys } = options;
  const sluice = createSluice({
    ...options,
    baseUri,
    endpoint: sharedEndpoint,
    principal: () => alice,
    delivery: "downloadUrl",
    // all redeem from one address
    limits: { streams: { perPrincipal: 10_000, perProcess: 10_000 } },
    rates: { failedRedemptions: false },
    onError: () => {},
  });
  const header = (): undefined => undefined;
  const desk: TokenDesk = {
    async mint(key, count) {
      const { etag } = await storage.describe(key);
      const identity = { principal: alice, mayMint: true, maxTtlMs: 3_600_000 };
      const minted = Array.from({ length: count }, () => sluice.host.mint(identity, key, etag));
      return (await Promise.all(minted)).map((each) => each!.url.split("/").at(-1)!);
    },
    async redeem(tokens) {
      const replies = tokens.map((token) => sluice.host.redeem({ method: "HEAD", token, header }));
      return (await Promise.all(replies)).map(({ status }) => status);
    },
    keys: async () => [keys.current, ...keys.kids],
  };
  return { sluice, desk };
}
