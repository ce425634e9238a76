import type { JSONRPCMessage, JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import { SluiceError, type FetchLike } from "@sluice/core";
import { createAwaitedCalls } from "../confine/awaited-calls.ts";
import type { BridgeCalls, RelayHooks } from "../messages/hooks.ts";
import { isCall, membersOf } from "../messages/messages.ts";
import { findPlaces, mediaTypeOf } from "../spool/found-places.ts";
import type { SpoolLimits } from "../spool/message-spooler.ts";
import { releaseAnswer } from "../spool/release-spooled.ts";
import { spooledFetch } from "../spool/spooled-fetch.ts";
import { spooledLines } from "../spool/spooled-lines.ts";
import type { SpooledString } from "../spool/spooled-string.ts";
import type { SpoolPart, SpoolTarget } from "../spool/spool-target.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { HeldLink } from "./describe-link.ts";
import { ownFault } from "./hold-fault.ts";
import { linkSpooled, type LinkedString } from "./link-spooled.ts";
import type { ResultHold } from "./result-hold.ts";

/** A large result, or a part of one, that a hold keeps. */
export interface HeldResult {
  /** URI below the base of the hold: what `sluice.url` takes. No host hears it. */
  readonly uri: string;
  /** Safe file name. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** As the server says; it need not be true. */
  readonly mediaType: string | undefined;
}

/** Options of {@link openResultLinks}. */
export interface ResultLinksOptions {
  /** Where large results are until their links are over; sessions share one. */
  readonly hold: ResultHold;
  /**
   * Makes the link to a result, for the caller of this session: `(result) => sluice.url(result.uri, { caller })`. An
   * error of it is the answer to the call.
   */
  readonly link: (result: HeldResult) => Promise<HeldLink>;
  /** Longest string of an answer that the host gets itself, in bytes. Default: 64 KiB. */
  readonly inlineBytes?: number | undefined;
  /** Most bytes of the strings of one answer together. Default: 1 GiB. */
  readonly maxResultBytes?: number | undefined;
  /** Gets faults of `link` that hosts hear no cause of. Default: `console.error`. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** What a bridge is made of whose large results leave as links: one for each session. */
export interface ResultLinks {
  /** For {@link HttpUpstreamOptions.wrapFetch}. */
  readonly wrapFetch: (fetch: FetchLike) => FetchLike;
  /** For {@link ProcessOptions.wrapOutput}. */
  readonly wrapOutput: (output: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  /** The upstream to give to `runBridge`. */
  readonly watch: (upstream: Upstream) => Upstream;
  /** The hooks to give to `runBridge`. */
  readonly hooks: RelayHooks;
  /** Removes what is on its way. What has a link stays until its time, or until other sessions need the room. */
  close(): Promise<void>;
}

/**
 * Opens the links of one session. Strings of answers longer than `inlineBytes` go into the hold while they come, and the
 * host gets a link in their place, with name, size, type, SHA-256 and the beginning. Nothing is written to a disk. An
 * answer that has no room, or gets no link, becomes an error that says what to do.
 */
export async function openResultLinks(options: ResultLinksOptions): Promise<ResultLinks> {
  const { hold, link, inlineBytes = 65_536, maxResultBytes = 2 ** 30 } = options;
  const { onError = (error) => console.error(error) } = options;
  const spooled = new Map<string, SpooledString>();
  const awaited = createAwaitedCalls((id) =>
    releaseAnswer(spooled, ({ place }) => hold.drop(place), id),
  );
  const ended = new AbortController();
  const share = hold.openShare();
  const under = trackParts(share);
  const limits: SpoolLimits = {
    target: under.target,
    spooled,
    inlineBytes,
    maxBytes: maxResultBytes,
    isAwaited: (id) => awaited.has(id),
    hasReader: () => awaited.hasAny(),
    signal: ended.signal,
  };
  let relay: BridgeCalls | undefined;
  /** Revision that a host with sessions speaks. */
  let sessionRevision = "";

  /** Only the answer to this request is awaited on the stream that it opens. */
  function limitsOf(body: unknown): SpoolLimits {
    const ids = idsIn(body);
    if (ids.length === 0) return limits;
    return { ...limits, hasReader: () => ids.some((id) => awaited.has(id)) };
  }

  async function linkTo(held: SpooledString, mediaType: string | undefined): Promise<LinkedString> {
    const { place: uri, name, bytes: size, sha256 } = held;
    try {
      const made = await link({ uri, name, size, sha256, mediaType });
      hold.keep(uri, made.expiresAt);
      return { held, link: made };
    } catch (error) {
      if (!SluiceError.is(error)) onError(error);
      const code = SluiceError.is(error) ? error.code : "internal";
      throw ownFault(code, `no link to a large result could be made (${code}); ask again later`);
    }
  }

  async function withLinks(
    asked: JSONRPCRequest,
    given: JSONRPCResponse,
  ): Promise<JSONRPCResponse> {
    const places = findPlaces(given, new Set(spooled.keys()));
    if (places.length === 0) return given;
    const found = places.map(({ marker, holder }) => ({ held: spooled.get(marker)!, holder }));
    for (const { held } of found) spooled.delete(held.id);
    try {
      const linked = new Map<string, LinkedString>();
      for (const { held, holder } of found)
        linked.set(held.id, await linkTo(held, mediaTypeOf(holder)));
      const withBlocks = toolMethods.has(asked.method) && takesLinks();
      return linkSpooled(given, linked, withBlocks) as JSONRPCResponse;
    } catch (error) {
      await Promise.all(found.map(({ held }) => hold.drop(held.place)));
      if (!SluiceError.is(error)) throw error;
      const { message, code } = error;
      const { id } = given;
      return {
        jsonrpc: "2.0",
        id: id!,
        error: { code: internalError, message, data: { reason: code } },
      };
    }
  }

  /** Clients of older revisions refuse a whole result for a block that they do not know. */
  function takesLinks(): boolean {
    return relay?.hostRevision === "modern" || sessionRevision >= "2025-06-18";
  }

  return {
    wrapFetch: (fetch) => (url, init) => spooledFetch(fetch, limitsOf(init?.body))(url, init),
    wrapOutput: (output) => spooledLines(output, limits),
    watch: (upstream) => awaited.watch(upstream, (message) => message),
    hooks: {
      start: (calls) => void (relay = calls),
      async answer(asked, given) {
        if (asked.method === "initialize" && "result" in given)
          sessionRevision = String(membersOf(given.result)["protocolVersion"]);
        return withLinks(asked, given);
      },
    },
    async close() {
      ended.abort(ownFault("unavailable", "the session ends"));
      await under.discard();
      await Promise.all([...spooled.values()].map(({ place }) => hold.drop(place)));
      share.end();
    },
  };
}

const internalError = -32_603;
const toolMethods: ReadonlySet<string> = new Set(["tools/call", "tasks/result"]);

/** Ids of the requests in the body of a POST. */
function idsIn(body: unknown): readonly unknown[] {
  // a form of OAuth is none
  if (typeof body !== "string" || !/^\s*[[{]/.test(body)) return [];
  const parsed = JSON.parse(body) as JSONRPCMessage | readonly JSONRPCMessage[];
  return [parsed].flat().flatMap((message) => (isCall(message) ? [message.id] : []));
}

/** The share, with those parts in sight that have no name yet. */
function trackParts(share: SpoolTarget): {
  readonly target: SpoolTarget;
  discard(): Promise<void>;
} {
  const parts = new Set<SpoolPart>();
  return {
    target: {
      async create() {
        const part = await share.create();
        parts.add(part);
        return {
          get bytes() {
            return part.bytes;
          },
          write: (chunk) => part.write(chunk),
          reread: () => part.reread(),
          seal: () => part.seal(),
          async publish(name) {
            const place = await part.publish(name);
            parts.delete(part);
            return place;
          },
          discard() {
            parts.delete(part);
            return part.discard();
          },
        };
      },
    },
    async discard() {
      await Promise.all([...parts].map((part) => part.discard()));
    },
  };
}
