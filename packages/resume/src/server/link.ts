import { createSealer, SluiceError, tokenLifetimes } from "@sluice/core";
import { STREAM_RELATION } from "@sluice/core/wire";
import type { Caller, Sluice } from "@sluice/server";
import type { RpcId } from "../protocol/message.ts";

/** Who is asking, and who they are. */
export type Member = Awaited<ReturnType<Sluice["host"]["identify"]>>;

/** A place in a stream. */
export interface Place {
  readonly streamId: string;
  /** Number of the event after which it is; 0 is its beginning. */
  readonly seq: number;
}

/** Makes and opens the links at which streams go on. */
export interface Links {
  /** `Link` header to a place, for this member; `undefined` when it gets none. */
  linkTo(member: Member, place: Place): string | undefined;
  /**
   * The place behind a token, for the caller that it was made for. Throws `expired`, `unauthenticated`, or
   * `not_found` for everything else that is wrong with it.
   */
  open(token: string, caller: Caller): Promise<{ readonly place: Place; readonly member: Member }>;
}

/** Makes the links of a Sluice, below `<endpoint>/resume/`. They are good in the session they were made in. */
export function createLinks(
  { host, isSessionOver }: Pick<Sluice, "host" | "isSessionOver">,
  ttlMs: number,
): Links {
  const { endpoint, keys } = host;
  const { maxTtlMs } = tokenLifetimes.resume.bound;
  if (!(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(`withResume: linkTtlMs must be from 1000 to ${maxTtlMs}`);
  const sealer = createSealer({ keys, audience: endpoint.url });

  return {
    linkTo({ principal, maxTtlMs: longest }, { streamId, seq }) {
      const lifeMs = Math.min(ttlMs, longest);
      if (!principal?.sessionId || lifeMs < 1_000) return undefined;
      const handle = `${streamId} ${seq}`;
      const { token } = sealer.seal("resume", { handle, principal, ttlMs: lifeMs });
      return `<${endpoint.url}/resume/${token}>; rel="${STREAM_RELATION}"`;
    },
    async open(token, caller) {
      const grant = sealer.unseal("resume", token);
      const member = await host.identify(caller);
      const { principal } = member;
      if (!principal) throw new SluiceError("unauthenticated", "resume: the link is bound");
      const { sessionId } = principal;
      if (!grant.matchesPrincipal(principal) || !grant.sessionBound || !sessionId)
        throw new SluiceError("not_found", "resume: the link is somebody else's");
      if (await isSessionOver(sessionId))
        throw new SluiceError("not_found", "resume: the session is over");
      await host.bindSession(member);
      const [streamId = "", seq] = grant.handle.split(" ");
      return { place: { streamId, seq: Number(seq) }, member };
    },
  };
}

/** Makes the id of a stream, in one piece: Node leaves a UUID in the 14 that it is made of until somebody searches it. */
export function newStreamId(): string {
  const id = crypto.randomUUID();
  id.search(/$/);
  return id;
}

/** A place as the id of an event. */
export function formatEventId({ streamId, seq }: Place): string {
  return `${streamId}/${seq}`;
}

/** The place that an event id of ours names; `undefined` for others. */
export function parseEventId(id: string | null): Place | undefined {
  const [, streamId = "", seq = ""] = eventId.exec(id ?? "") ?? [];
  return streamId === "" ? undefined : { streamId, seq: Number(seq) };
}

/**
 * Id by which the client knows a question of a stream: servers of one session in several processes count alike,
 * and who gets the answer finds the stream by it.
 */
export function formatQuestionId(streamId: string, id: RpcId): string {
  return `${streamId}?${JSON.stringify(id)}`;
}

/** The id that the server itself gave a question. Only for what {@link formatQuestionId} made. */
export function ownIdOf(questionId: RpcId): RpcId {
  return JSON.parse(String(questionId).slice(streamIdLength + 1)) as RpcId;
}

/** The stream that a question id of ours names; `undefined` for others. */
export function streamOfQuestion(id: RpcId): string | undefined {
  return typeof id === "string" ? questionStart.exec(id)?.[1] : undefined;
}

const streamIdLength = 36;
const streamId = "([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})";
const eventId = new RegExp(`^${streamId}/(\\d{1,9})$`);
const questionStart = new RegExp(`^${streamId}\\?`);
