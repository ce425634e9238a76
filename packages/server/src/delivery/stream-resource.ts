import { ProtocolError } from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, type DeliveryMode } from "@sluice/core/internal";
import { tagOf } from "../access/principal.ts";
import { leaveReply } from "../calls/exchange.ts";
import { revisionOf, slotOf } from "../calls/request-caller.ts";
import {
  toProtocolError,
  type IdentifiedCall,
  type ResourceCalls,
} from "../calls/resource-calls.ts";
import { readChallenge } from "../calls/sdk-handlers.ts";
import { clientStreaming } from "../calls/streaming-declarations.ts";
import {
  outcomeOf,
  signInFault,
  FaultError,
  faultOf,
  rpcFault,
  type RpcFault,
} from "../faults/rpc-fault.ts";
import { isProtocolType } from "../http/media-types.ts";
import type { Transfers } from "../limits/transfers.ts";
import type { ReadCall } from "../resources/resource-reader.ts";
import { ensureDelivery, type Delivery } from "../storage/delivery-policy.ts";
import type { Mounts, Place } from "../storage/mounts.ts";
import { targetOrRethrow, redirectReply } from "../urls/redirect-reply.ts";
import {
  ensureFits,
  type DeliveryModes,
  type ResourceDelivery,
  type StreamAnswer,
} from "./modes.ts";
import { streamRegistered, type AuthorCall, type RegisteredParts } from "./registered.ts";

interface StreamRequest extends ReadCall, AuthorCall {
  /** Whether the server also streams what its author registered. */
  readonly withRegistered: boolean;
}

/** Collaborators of `resources/stream`. */
export interface StreamParts extends RegisteredParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  readonly modes: DeliveryModes;
  readonly transfers: Transfers;
  readonly resourceMetadataUrl: string | undefined;
  readonly onError: (error: unknown) => void;
}

/**
 * Answers `resources/stream`: gives the result for the SDK to send, or rejects with a `ProtocolError`. Bytes, redirects
 * and faults go to the reply slot of the request: the transport opens it on the exchange (calls/exchange.ts) before the
 * SDK has the request, and sends what it finds there in place of the SDK's response. Order: identity → rate → mount and
 * key → access → scopes → owner → describe → capability → size → type → mode; within `direct`: permit → open → size →
 * grant → record.
 */
export async function streamResource(
  parts: StreamParts,
  call: StreamRequest,
): Promise<Record<string, unknown>> {
  const { mcp, ctx, uri } = call;
  const slot = slotOf(ctx);
  return answerOrFault(parts, call, async (signal) => {
    const callOptions = { mcp, ctx, uri, action: "stream", kind: "transfer", signal } as const;
    const answer = await parts.calls.answer(callOptions, async (identifiedCall) => ({
      answer: await answerStream(parts, call, identifiedCall),
      ending: "handled",
    }));
    if (answer.result) return answer.result;
    leaveReply(slot, answer.reply);
    // a dummy: the SDK requires a result, and the transport discards it
    return { uri };
  });
}

/**
 * Runs the answer to a call for bytes; `signal` aborts when the client disconnects. Errors go to the reply slot as faults, and
 * to the SDK as errors of the protocol.
 */
export async function answerOrFault(
  { resourceMetadataUrl, onError }: Pick<StreamParts, "resourceMetadataUrl" | "onError">,
  call: FaultyCall,
  answer: (signal: AbortSignal | undefined) => Promise<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const { ctx } = call;
  const slot = slotOf(ctx);
  const signal = ctx.http?.req?.signal;
  try {
    return await answer(signal);
  } catch (error) {
    const isGone = signal?.aborted === true || ctx.mcpReq.signal.aborted;
    if (outcomeOf(error) === "failed" && !isGone) onError(error);
    // the author's handlers throw errors of the protocol
    if (error instanceof ProtocolError) throw error;
    const fault = streamFault(error, call, resourceMetadataUrl);
    if (slot) slot.fault = fault;
    throw toProtocolError(fault);
  }
}

/** A call whose errors become faults. */
interface FaultyCall extends Pick<StreamRequest, "mcp" | "ctx"> {
  /** Absent if it names several. */
  readonly uri?: string;
}

async function answerStream(
  parts: StreamParts,
  call: StreamRequest,
  identifiedCall: IdentifiedCall,
): Promise<StreamAnswer> {
  const { mcp, ctx, uri, isOurs, withRegistered } = call;
  const { identity, principal, address, entry } = identifiedCall;
  const { mounts, modes, resourceMetadataUrl } = parts;
  const place = findPlace(mounts, uri, principal);
  if (!place) return answerOutside(parts, call, identifiedCall);
  const { mount, key } = place;
  const canonical = mount.mapper.toUri(key);
  // `hide` shows only at `describe`: the storage then finds nothing
  const storage = await mount.storageAccess.authorize({
    principal,
    key,
    action: "stream",
    uri: canonical,
  });
  // both spellings: the SDK matches registrations by text, so the client's spelling could miss one that the canonical
  // URI hits
  for (const spelling of new Set([canonical, uri])) {
    await ensureStreamScopes(call, spelling, resourceMetadataUrl);
    // only what `resources/read` of the client's own spelling gives is streamed
    if (withRegistered && spelling === uri) {
      const registered = await streamRegistered(parts, call, identifiedCall, place);
      if (registered) return registered;
    } else if (!(await isOurs(spelling, ctx)))
      throw new SluiceError(
        "unsupported",
        "sluice: stream: resources/read of this URI is answered by the server's author",
      );
  }

  const signal = ctx.http?.req?.signal;
  const info = await storage.describe(key, definedMembers({ signal }));
  const slot = slotOf(ctx);
  const declaration = clientStreaming(mcp, ctx, slot);
  if (!declaration) throw new FaultError(rpcFault("client_capability", revisionOf(mcp), { uri }));
  const isUnknown = declaration === "unknown";
  const client = isUnknown ? {} : declaration;
  ensureFits(info, client);

  const mimeType = await storage.typeOf(info, definedMembers({ signal }));
  const delivery: ResourceDelivery = {
    uri,
    place,
    info,
    mimeType,
    storage,
    identity,
    address,
    client,
    entry,
    signal,
  };
  for (const mode of modesFor(delivery, slot !== undefined && !isUnknown)) {
    entry.facts.mode = mode;
    try {
      const answer = await modes[mode](delivery);
      if (answer) return answer;
      // this mode was impossible after all: try the next one
    } catch (error) {
      // a provider gives its URL by throwing `RedirectError`
      return redirectOrThrow(parts, delivery, error);
    }
  }
  if (!identity.mayMint)
    throw new SluiceError(
      "unauthenticated",
      "sluice: stream: no download URL for the anonymous; authenticate, or set anonymous: true",
    );
  throw new SluiceError("unsupported", "sluice: stream: no way to deliver it");
}

/** Sends the client to the URL that a provider gave in place of bytes; throws any other error. */
async function redirectOrThrow(
  { transfers }: StreamParts,
  { uri, place, identity, entry }: ResourceDelivery,
  error: unknown,
): Promise<StreamAnswer> {
  const { url, info } = targetOrRethrow(place.mount, error);
  entry.facts.mode = "redirect";
  await entry.conclude("issued");
  transfers.charge(tagOf(identity.principal), info.size ?? 0);
  return { reply: redirectReply(uri, url, info) };
}

/** The place of a URI; `undefined` if no mount of this principal has it. */
export function findPlace(
  mounts: Mounts,
  uri: string,
  principal: Principal | undefined,
): Place | undefined {
  try {
    return mounts.placeFor(uri, principal);
  } catch (error) {
    if (!SluiceError.is(error) || error.code !== "not_found") throw error;
    return undefined;
  }
}

/** Answers for a URI outside of the mounts: the author of the server may have it. */
async function answerOutside(
  parts: StreamParts,
  call: StreamRequest,
  identifiedCall: IdentifiedCall,
): Promise<StreamAnswer> {
  const { ctx, uri, isAuthored, withRegistered } = call;
  if (withRegistered && URL.canParse(uri)) {
    await ensureStreamScopes(call, uri, parts.resourceMetadataUrl);
    const registered = await streamRegistered(parts, call, identifiedCall);
    if (registered) return registered;
  }
  if (await isAuthored(uri, ctx))
    throw new SluiceError("unsupported", "sluice: stream: the author serves this URI");
  throw new SluiceError("not_found", "sluice: stream: the URI is not below a base URI");
}

function modesFor(
  { uri, place, info, mimeType, client, identity, storage }: ResourceDelivery,
  takesReply: boolean,
): DeliveryMode[] {
  const { principal } = identity;
  const { delivery: policy, redirectOrigins } = place.mount;
  const choice =
    typeof policy === "function" ? policy({ uri, info, mimeType, principal, client }) : policy;
  const hasOrigins =
    redirectOrigins === "storage"
      ? storage.presignOrigins !== undefined
      : redirectOrigins.length > 0;
  const isPossible: Readonly<Record<DeliveryMode, boolean>> = {
    direct: takesReply && !isProtocolType(mimeType),
    redirect: takesReply && storage.presign !== undefined && hasOrigins,
    downloadUrl: identity.mayMint,
  };
  return deliveryOrder(choice, client.prefer).filter((mode) => isPossible[mode]);
}

/** Modes in the order in which they are tried. Throws a `TypeError` for an invalid delivery, such as `undefined`. */
function deliveryOrder(
  delivery: Delivery,
  preferred: readonly DeliveryMode[] = [],
): readonly DeliveryMode[] {
  ensureDelivery(delivery);
  const order: readonly DeliveryMode[] =
    delivery === "auto"
      ? [...preferred, "redirect", "direct", "downloadUrl"]
      : [delivery, "downloadUrl"];
  return [...new Set(order)];
}

/**
 * Refuses a caller whose access token lacks the scopes for reading a resource. The SDK checks scopes only at
 * `resources/read`; without this check, streaming would bypass them.
 */
export async function ensureStreamScopes(
  { mcp, ctx }: Pick<StreamRequest, "mcp" | "ctx">,
  uri: string,
  resourceMetadataUrl: string | undefined,
): Promise<void> {
  const challenge = await readChallenge(mcp, ctx, uri);
  if (!challenge) return;
  const metadataUrl = ctx.http?.authInfo?.resourceMetadataUrl ?? resourceMetadataUrl;
  throw new FaultError(
    rpcFault("forbidden", revisionOf(mcp), {
      uri,
      status: 403,
      challenge: [
        'Bearer error="insufficient_scope"',
        `scope="${challenge.scopes.join(" ")}"`,
        ...(metadataUrl === undefined ? [] : [`resource_metadata="${encodeURI(metadataUrl)}"`]),
      ].join(", "),
    }),
  );
}

function streamFault(
  error: unknown,
  { mcp, uri }: FaultyCall,
  resourceMetadataUrl: string | undefined,
): RpcFault {
  const revision = revisionOf(mcp);
  const code = SluiceError.is(error) ? error.code : undefined;
  if (code === "unauthenticated") return signInFault(resourceMetadataUrl, revision);
  if (code === "permission_denied")
    return rpcFault("forbidden", revision, { uri, status: 403, challenge: "Bearer" });
  const suggestion = code === "unsupported" ? "Use resources/read for this resource" : undefined;
  return faultOf(error, revision, { uri, suggestion });
}
