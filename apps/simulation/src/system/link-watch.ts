import type { Life } from "../process/machine.ts";
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
  /** Session that it ends with. */
  readonly session?: string;
  /** Key that it was sealed with, where that is sure. */
  readonly kid?: string;
}

/** Whether a server had a key at a time, in simulated milliseconds. */
type HadKey = (life: Life, kid: string, at: number) => boolean;

/** How long after a revocation of many links was begun it may also count for new ones: clocks differ, and it reaches ahead. */
const doubtfulMs = 20_000;

/** Which links a revocation is about: one, those of a session, those of a resource, or all. */
export type Reach =
  | { readonly token: string }
  | { readonly session: string }
  | { readonly resourceUri: string }
  | { readonly all: true };

function isWithin(reach: Reach, token: string, link: WatchedLink): boolean {
  if ("token" in reach) return reach.token === token;
  if ("session" in reach) return reach.session === link.session;
  return "all" in reach || reach.resourceUri === link.resourceUri;
}

interface Record extends WatchedLink {
  redemptions: number;
  /** When a revocation had surely succeeded. */
  revokedAt: number;
  /** It may be refused before its time. */
  isDoubtful: boolean;
}

/**
 * Watches what servers answer to links: none gives bytes once too often, after its end or after it was withdrawn, or without
 * its key. One for any number of requests is not refused before its time, if the state of servers is kept.
 */
export class LinkWatch {
  readonly #world: World;
  readonly #clockSkewMs: number;
  readonly #records: Map<string, Record> = new Map();
  readonly #doubts: (Reach & { readonly at: number })[] = [];

  constructor(world: World, network: Network, clockSkewMs: number, hadKey?: HadKey) {
    this.#world = world;
    this.#clockSkewMs = clockSkewMs;
    network.watchers.push(({ url, method, server, response, begunAt }) => {
      const record = this.#records.get(tokenOf(url.href));
      if (!record || method !== "GET") return;
      const skewMs = server.life?.machine.skewMs ?? 0;
      const { kid } = record;
      const had =
        hadKey && kid ? [begunAt, world.now].map((at) => hadKey(server.life!, kid, at)) : [];
      if (response.status === 404 && had[0] && had[1])
        this.#lookAtRefusal(record, server.name, epochMs + world.now + skewMs);
      if (response.status !== 200 && response.status !== 206) return;
      if (had[0] === false && had[1] === false)
        world.violate("KEY", `${server.name} gives bytes of a link whose key it has not`);
      this.#look(record, server.name, begunAt, epochMs + begunAt + skewMs);
    });
  }

  made(link: WatchedLink): void {
    this.#records.set(tokenOf(link.url), {
      ...link,
      redemptions: 0,
      revokedAt: Infinity,
      isDoubtful: this.#isDoubtful(link),
    });
  }

  /** Links that a revocation is about that begins now. Its success is told of these: of others nobody knows. */
  reached(reach: Reach): readonly string[] {
    return [...this.#records]
      .filter(([token, link]) => isWithin(reach, token, link))
      .map(([token]) => token);
  }

  /** A revocation of these tokens has succeeded. */
  revoked(tokens: readonly string[]): void {
    for (const token of tokens) {
      const record = this.#records.get(token);
      if (record) record.revokedAt = Math.min(record.revokedAt, this.#world.now);
    }
  }

  /** A revocation of some links begins: nobody knows when it counts, nor whether for links that are made a little later. */
  doubt(reach: Reach): void {
    this.#doubts.push({ ...reach, at: this.#world.now });
    for (const [token, record] of this.#records)
      if (isWithin(reach, token, record)) record.isDoubtful = true;
  }

  #isDoubtful(link: WatchedLink): boolean {
    return this.#doubts.some(
      (doubt) =>
        isWithin(doubt, tokenOf(link.url), link) &&
        ("session" in doubt || link.madeAt < doubt.at + doubtfulMs),
    );
  }

  #lookAtRefusal(
    { use, expiresAt, isDoubtful, madeAt }: Record,
    server: string,
    wallMs: number,
  ): void {
    if (use === "window" && !isDoubtful && wallMs < expiresAt - this.#clockSkewMs)
      this.#world.violate(
        "REFUSED",
        `${server} refuses a link that was made ${Math.round(this.#world.now - madeAt)} ms ago, ${Math.round(expiresAt - wallMs)} ms before its end`,
      );
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
