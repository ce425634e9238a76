import { definedMembers, SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/wire";
import { tagOf } from "../access/principal.ts";
import { outcomeOf } from "../audit/outcome.ts";
import { leaveReply, replySlotOf } from "../http/reply-slot.ts";
import type { Mounts, Place } from "../mounts/mounts.ts";
import type { ReadCall } from "../resources/resource-reader.ts";
import { revisionOf } from "../sdk/request-caller.ts";
import { toProtocolError, type CallWork, type ResourceCalls } from "../sdk/resource-calls.ts";
import type { AnswersFor } from "../sdk/resource-owner.ts";
import { signInFault, FaultError, faultOf, rpcFault, type RpcFault } from "../sdk/rpc-fault.ts";
import { readChallenge } from "../sdk/sdk-handlers.ts";
import {
  ensureFits,
  type DeliverResource,
  type ResourceDelivery,
  type StreamAnswer,
} from "./delivery.ts";
import { deliveryOrder } from "./delivery-policy.ts";
import { providedTarget, redirectReply } from "./redirect-reply.ts";
import { isProtocolType } from "../http/media-types.ts";
import { clientStreaming } from "./streaming-declarations.ts";
import type { Transfers } from "./transfers.ts";

interface StreamRequest extends ReadCall {
  readonly isElsewhere: AnswersFor;
}

/**
 * Answers `resources/stream`: gives the result for the SDK to send, or rejects with a `ProtocolError`. Bytes, redirects and
 * faults go to the reply slot of the request.
 */
export type StreamResource = (call: StreamRequest) => Promise<Record<string, unknown>>;

interface StreamResourceOptions {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  readonly modes: Readonly<Record<DeliveryMode, DeliverResource>>;
  readonly transfers: Transfers;
  readonly resourceMetadataUrl: string | undefined;
  readonly onError: (error: unknown) => void;
}

/**
 * Makes the handler of `resources/stream`. Order: identity → rate → key → access → scopes → describe → capability → size →
 * mode → grant → record.
 */
export function createStreamResource(options: StreamResourceOptions): StreamResource {
  const { calls, resourceMetadataUrl, onError } = options;
  return async (call) => {
    const { mcp, ctx, uri } = call;
    const slot = replySlotOf(ctx.http?.req);
    const signal = ctx.http?.req?.signal;
    try {
      const kept = { mcp, ctx, uri, action: "stream", kind: "transfer", signal } as const;
      const answer = await calls.answer(kept, async (work) => ({
        result: await answerStream(options, call, work),
        ending: "later",
      }));
      if (answer.result) return answer.result;
      leaveReply(slot, answer.reply);
      // the SDK checks that there is a result; the transport replaces the whole response
      return { uri };
    } catch (error) {
      const fault = faultFor(error, call, resourceMetadataUrl);
      if (outcomeOf(error) === "failed" && signal?.aborted !== true) onError(error);
      if (slot) slot.fault = fault;
      throw toProtocolError(fault);
    }
  };
}

async function answerStream(
  options: StreamResourceOptions,
  call: StreamRequest,
  { identity, principal, address, entry }: CallWork,
): Promise<StreamAnswer> {
  const { mcp, ctx, uri, isOurs } = call;
  const { mounts, modes } = options;
  const place = await placeOf(mounts, call);
  const { mount, key } = place;
  const storage = await mount.storages.authorize({ principal, key, action: "stream" });
  // the SDK compares spellings: another one must not lead around what the author registered
  for (const spelling of new Set([mount.mapper.toUri(key), uri])) {
    await ensureScopes(call, spelling, options.resourceMetadataUrl);
    if (!(await isOurs(spelling, ctx)))
      throw new SluiceError("unsupported", "sluice: stream: read of this URI is not ours");
  }

  const signal = ctx.http?.req?.signal;
  const info = await storage.describe(key, definedMembers({ signal }));
  const { about } = mount.entries;
  if (about && (await about(info)).streamable === false)
    throw new SluiceError("unsupported", "sluice: stream: the author serves it by read alone");
  const slot = replySlotOf(ctx.http?.req);
  const declared = clientStreaming(mcp, ctx, slot);
  if (!declared) throw new FaultError(rpcFault("client_capability", revisionOf(mcp), { uri }));
  const isUntold = declared === "untold";
  const client = isUntold ? {} : declared;
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
  for (const mode of modesFor(delivery, slot !== undefined && !isUntold)) {
    entry.facts.mode = mode;
    try {
      const answer = await modes[mode](delivery);
      if (answer) return answer;
    } catch (error) {
      return answerElsewhere(options, delivery, error);
    }
  }
  if (!identity.mayMint)
    throw new SluiceError(
      "unauthenticated",
      "sluice: stream: no download URL for the anonymous; authenticate, or set anonymous: true",
    );
  throw new SluiceError("unsupported", "sluice: stream: no way to deliver it");
}

/** Sends the client to the URL that a provider gave in place of bytes; throws what is no such URL. */
async function answerElsewhere(
  { transfers }: StreamResourceOptions,
  { uri, place, identity, entry }: ResourceDelivery,
  error: unknown,
): Promise<StreamAnswer> {
  const { url, info } = providedTarget(place.mount, error);
  entry.facts.mode = "redirect";
  await entry.conclude("issued");
  transfers.charge(tagOf(identity.principal), info.size ?? 0);
  return { reply: redirectReply(uri, url) };
}

/** The place of a URI. A URI that the author serves outside of the mounts cannot stream. */
async function placeOf(mounts: Mounts, { uri, ctx, isElsewhere }: StreamRequest): Promise<Place> {
  try {
    return mounts.find(uri);
  } catch (error) {
    if (!SluiceError.is(error) || error.code !== "not_found") throw error;
    if (!(await isElsewhere(uri, ctx))) throw error;
    throw new SluiceError("unsupported", "sluice: stream: the author serves this URI");
  }
}

function modesFor(
  { uri, place, info, mimeType, client, identity, storage }: ResourceDelivery,
  takesReply: boolean,
): DeliveryMode[] {
  const { principal } = identity;
  const { delivery: policy, redirectOrigins } = place.mount;
  const wanted =
    typeof policy === "function" ? policy({ uri, info, mimeType, principal, client }) : policy;
  const isPossible: Readonly<Record<DeliveryMode, boolean>> = {
    direct: takesReply && !isProtocolType(mimeType),
    redirect: takesReply && storage.presign !== undefined && redirectOrigins.length > 0,
    downloadUrl: identity.mayMint,
  };
  return deliveryOrder(wanted, client.prefer).filter((mode) => isPossible[mode]);
}

/** The SDK asks for scopes at `resources/read` only; without this, streaming would go around them. */
async function ensureScopes(
  { mcp, ctx }: StreamRequest,
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

function faultFor(
  error: unknown,
  { mcp, uri }: StreamRequest,
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
