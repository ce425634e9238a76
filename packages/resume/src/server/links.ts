import { createSealer, SluiceError, tokenLifetimes } from "@sluice/core";
import type { Caller, Sluice } from "@sluice/server";
import { formatStreamLink } from "../protocol/stream-link.ts";
import type { StreamPosition } from "../stream/event-id.ts";
import type { SessionMember } from "./session-request.ts";

/** A position and the member that its link was made for. */
export interface LinkedPosition {
  readonly position: StreamPosition;
  readonly member: SessionMember;
}

/** Makes and opens the links at which streams continue. */
export interface StreamLinks {
  /** `Link` header to a position, for this member; `undefined` for a member that gets none. */
  linkTo(member: SessionMember, position: StreamPosition): string | undefined;
  /**
   * Opens a token for its caller. Throws `expired`, `unauthenticated`, or `not_found` for everything else that is wrong
   * with it.
   */
  open(token: string, caller: Caller): Promise<LinkedPosition>;
}

/** Makes the links of a Sluice, below `<endpoint>/resume/`. They are good in the session they were made in. */
export function createStreamLinks(
  { host, isSessionOver }: Pick<Sluice, "host" | "isSessionOver">,
  ttlMs: number,
): StreamLinks {
  const { endpoint, keys } = host;
  const { maxTtlMs } = tokenLifetimes.resume.bound;
  if (!(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(`withResume: linkTtlMs must be from 1000 to ${maxTtlMs}`);
  const sealer = createSealer({ keys, audience: endpoint.url });

  return {
    linkTo({ principal, maxTtlMs: longest }, { streamId, seq }) {
      const lifeMs = Math.min(ttlMs, longest);
      if (!principal?.sessionId || lifeMs < 1_000) return undefined;
      const key = `${streamId} ${seq}`;
      const { token } = sealer.seal("resume", { key, principal, ttlMs: lifeMs });
      return formatStreamLink(`${endpoint.url}/resume/${token}`);
    },
    async open(token, caller) {
      const grant = sealer.unseal("resume", token);
      const member = await host.identify(caller);
      const { principal } = member;
      if (!principal) throw new SluiceError("unauthenticated", "resume: the link is bound");
      const { sessionId } = principal;
      if (!grant.matchesPrincipal(principal) || !grant.sessionBound || !sessionId)
        throw new SluiceError("not_found", "resume: the link belongs to another principal");
      if (await isSessionOver(sessionId))
        throw new SluiceError("not_found", "resume: the session has ended");
      await host.bindSession(member);
      const [streamId = "", seq] = grant.key.split(" ");
      return { position: { streamId, seq: Number(seq) }, member };
    },
  };
}
