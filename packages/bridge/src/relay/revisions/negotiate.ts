import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { FIRST_MODERN_VERSION, type RevisionKind } from "@sluice/core/internal";
import { SendError } from "../../upstream/send-fault.ts";
import {
  answerOf,
  isMembers,
  membersOf,
  type Answer,
  type Members,
} from "../../messages/messages.ts";
import { SameRevisionSession } from "../same-revision.ts";
import type { Session, SessionParts } from "../session.ts";
import {
  CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  envelopeFrom,
  envelopeOf,
  withEnvelope,
} from "../../messages/envelope.ts";
import { LegacyHostSession } from "./legacy-host.ts";
import { initializeResult, legacyRevisions } from "./legacy-results.ts";
import { ModernHostSession } from "./modern-host.ts";
import { wordsOf } from "../../messages/error-words.ts";

/** A session, and the response to the host's first request where the server has given it already. */
interface Negotiated {
  readonly session: Session;
  readonly answer?: Answer;
}

/** The revision that a host speaks, by its first request. */
export function hostRevision(request: JSONRPCRequest): RevisionKind {
  return envelopeOf(request) ? "modern" : "legacy";
}

/**
 * Finds out which revision the server speaks: first the one that the host speaks, then the other. Throws when the
 * server cannot be reached.
 */
export async function negotiate(parts: SessionParts, first: JSONRPCRequest): Promise<Negotiated> {
  if (hostRevision(first) === "modern") return negotiateModern(parts, first);
  if (first.method === "initialize") return negotiateLegacy(parts, first);
  // a host that asks before it says what it is: the server decides what that means
  return { session: new SameRevisionSession(parts, "legacy") };
}

async function negotiateLegacy(parts: SessionParts, first: JSONRPCRequest): Promise<Negotiated> {
  const answer = await tryExchange(parts, first, parts.limits.handshakeMs);
  if (answer.error) {
    const discovered = await discover(parts, envelopeFrom(first));
    if (discovered) {
      const result = initializeResult(discovered, membersOf(first.params)["protocolVersion"]);
      return { session: new LegacyHostSession(parts, first, discovered), answer: { result } };
    }
  }
  const session = new SameRevisionSession(parts, "legacy");
  session.begin(first);
  return { session, answer };
}

async function negotiateModern(parts: SessionParts, first: JSONRPCRequest): Promise<Negotiated> {
  const envelope = envelopeOf(first) ?? {};
  if (await discover(parts, envelope)) {
    const session = new SameRevisionSession(parts, "modern");
    session.begin(first);
    return { session };
  }
  const initialize = initializeFrom(parts.host.newId(), envelope);
  const answer = await tryExchange(parts, initialize, parts.limits.handshakeMs);
  if (answer.error) {
    // it speaks neither, or refuses both: the host hears what it says to the host's own revision
    const session = new SameRevisionSession(parts, "modern");
    session.begin(first);
    return { session };
  }
  await parts.link.send({ jsonrpc: "2.0", method: "notifications/initialized" });
  return { session: new ModernHostSession(parts, initialize, answer.result) };
}

/** The server's result of `server/discover`, where it is one of 2026-07-28. */
async function discover(parts: SessionParts, envelope: Members): Promise<Members | undefined> {
  const { host, limits, link } = parts;
  const request = { jsonrpc: "2.0" as const, id: host.newId(), method: "server/discover" };
  // over HTTP the connection itself has a deadline for it, which a sign-in does not count against
  const timeoutMs = link.hasRequestStreams ? limits.handshakeMs : limits.probeMs;
  const probe = tryExchange(parts, withEnvelope(request, envelope), timeoutMs);
  const { result } = await probe.catch((error: unknown) => {
    // servers that do not know it fail at it in every way
    if (error instanceof SendError && error.fault.kind === "lost") return { result: undefined };
    throw error;
  });
  const versions = result?.["supportedVersions"];
  return Array.isArray(versions) && versions.includes(FIRST_MODERN_VERSION) ? result : undefined;
}

/** What the server answers; a refusal of any kind is an error. Throws when the server cannot be reached. */
async function tryExchange(
  { link }: SessionParts,
  request: JSONRPCRequest,
  timeoutMs: number,
): Promise<Answer> {
  try {
    return answerOf(await link.exchange(request, timeoutMs));
  } catch (error) {
    const message = wordsOf(error);
    // a process that is silent, or ends at a method it does not know, is an old one
    if (SluiceError.is(error) && error.code === "timeout" && !link.hasRequestStreams)
      return { error: { code: -32_000, message } };
    if (!(error instanceof SendError)) throw error;
    const { fault } = error;
    if (fault.kind === "answered") return { error: fault.error };
    const isRefusal = fault.kind === "refused" && isClientFault(fault.status);
    if (isRefusal || (fault.kind === "lost" && !link.hasRequestStreams))
      return { error: { code: -32_000, message: `${link.name}: ${message}` } };
    throw error;
  }
}

/** Statuses with which an HTTP server refuses a message that it does not understand. */
function isClientFault(status: number | undefined): boolean {
  return status !== undefined && status !== 401 && status !== 403;
}

function initializeFrom(id: string, envelope: Members): JSONRPCRequest {
  const clientInfo = envelope[CLIENT_INFO_KEY];
  return {
    jsonrpc: "2.0",
    id,
    method: "initialize",
    params: {
      protocolVersion: legacyRevisions[0],
      capabilities: membersOf(envelope[CAPABILITIES_KEY]),
      clientInfo: isMembers(clientInfo) ? clientInfo : { name: "mcp-client", version: "0" },
    },
  };
}
