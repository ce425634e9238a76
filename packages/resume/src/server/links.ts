import { createSealer, SluiceError, tokenLifetimes, type Sealer } from "@sluice/core";
import type { Caller, Sluice } from "@sluice/server";
import { formatStreamLink } from "../protocol/stream-link.ts";
import type { StreamPosition } from "../stream/event-id.ts";
import type { SessionMember } from "./session-request.ts";

/** A position and the member that its link was made for. */
export interface LinkedPosition {
  readonly position: StreamPosition;
  readonly member: SessionMember;
}

/**
 * Makes and opens the links of a Sluice at which streams continue, below `<endpoint>/resume/`. They are good in the
 * session they were made in.
 */
export class StreamLinks {
  readonly #sluice: Pick<Sluice, "host">;
  readonly #ttlMs: number;
  readonly #sealer: Sealer;

  constructor(sluice: Pick<Sluice, "host">, ttlMs: number) {
    this.#sluice = sluice;
    this.#ttlMs = ttlMs;
    const { endpoint, keys } = sluice.host;
    const { maxTtlMs } = tokenLifetimes.resume.bound;
    if (!(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
      throw new RangeError(`createResume: linkTtlMs must be from 1000 to ${maxTtlMs}`);
    this.#sealer = createSealer({ keys, audience: endpoint.url });
  }

  /** `Link` header to a position, for this member; `undefined` for a member that gets none. */
  linkTo(
    { principal, maxTtlMs: longest }: SessionMember,
    { streamId, seq }: StreamPosition,
  ): string | undefined {
    const lifeMs = Math.min(this.#ttlMs, longest);
    if (!principal?.sessionId || lifeMs < 1_000) return undefined;
    const key = `${streamId} ${seq}`;
    const { token } = this.#sealer.seal("resume", { key, principal, ttlMs: lifeMs });
    return formatStreamLink(`${this.#sluice.host.endpoint.url}/resume/${token}`);
  }

  /**
   * Opens a token for its caller. Throws `expired`, `unauthenticated`, or `not_found` for everything else that is wrong
   * with it.
   */
  async open(token: string, caller: Caller): Promise<LinkedPosition> {
    const grant = this.#sealer.unseal("resume", token);
    const member = await this.#sluice.host.identify(caller);
    const { principal } = member;
    if (!principal) throw new SluiceError("unauthenticated", "resume: the link is bound");
    const { sessionId } = principal;
    if (!grant.matchesPrincipal(principal) || !grant.sessionBound || !sessionId)
      throw new SluiceError("not_found", "resume: the link belongs to another principal");
    if (await this.#sluice.host.isSessionOver(sessionId))
      throw new SluiceError("not_found", "resume: the session has ended");
    await this.#sluice.host.bindSession(member);
    const [streamId = "", seq] = grant.key.split(" ");
    return { position: { streamId, seq: Number(seq) }, member };
  }
}
