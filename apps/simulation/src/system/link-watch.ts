import type { Network } from "../services/network.ts";
import { epochMs, type World } from "../world/world.ts";

/** A link, as the profile made it. */
export interface WatchedLink {
  readonly url: string;
  readonly use: "once" | "window";
  /** Unix milliseconds by the clock that made it. */
  readonly expiresAt: number;
  readonly resourceUri: string;
  /** Simulated milliseconds. */
  readonly madeAt: number;
}

interface Record extends WatchedLink {
  redemptions: number;
  /** When a revocation had surely succeeded. */
  revokedAt: number;
}

/** Watches what servers answer to links: none gives bytes once too often, after its end or after it was withdrawn. */
export class LinkWatch {
  readonly #world: World;
  readonly #clockSkewMs: number;
  readonly #records: Map<string, Record> = new Map();

  constructor(world: World, network: Network, clockSkewMs: number) {
    this.#world = world;
    this.#clockSkewMs = clockSkewMs;
    network.watchers.push(({ url, method, server, response, begunAt }) => {
      const record = this.#records.get(tokenOf(url.href));
      if (!record || method !== "GET" || (response.status !== 200 && response.status !== 206))
        return;
      const skewMs = server.life?.machine.skewMs ?? 0;
      this.#look(record, server.name, begunAt, epochMs + begunAt + skewMs);
    });
  }

  made(link: WatchedLink): void {
    this.#records.set(tokenOf(link.url), { ...link, redemptions: 0, revokedAt: Infinity });
  }

  /** A revocation of these tokens has succeeded. */
  revoked(tokens: readonly string[], at: number): void {
    for (const token of tokens) {
      const record = this.#records.get(token);
      if (record) record.revokedAt = Math.min(record.revokedAt, at);
    }
  }

  /** Tokens that a revocation by a principal or a resource withdraws: all that were made until now. */
  tokensFor(what: string, { resourceUri }: { readonly resourceUri: string }): string[] {
    return [...this.#records]
      .filter(([, record]) => what === "principal" || record.resourceUri === resourceUri)
      .map(([token]) => token);
  }

  #look(record: Record, server: string, begunAt: number, wallMs: number): void {
    record.redemptions += 1;
    const { use, redemptions, revokedAt, expiresAt } = record;
    if (use === "once" && redemptions > 1)
      this.#world.violate(
        "ONCE",
        `${server} gives bytes of a link of one use for the ${redemptions}. time`,
      );
    if (begunAt > revokedAt)
      this.#world.violate(
        "REVOKED",
        `${server} gives bytes ${Math.round(begunAt - revokedAt)} ms after a revocation succeeded`,
      );
    if (wallMs > expiresAt + this.#clockSkewMs + 1)
      this.#world.violate(
        "EXPIRED",
        `${server} gives bytes ${Math.round(wallMs - expiresAt)} ms after the end`,
      );
  }
}

function tokenOf(url: string): string {
  return url.slice(url.lastIndexOf("/") + 1);
}
