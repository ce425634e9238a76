import type { JSONRPCMessage, JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import { SluiceError, type FetchLike } from "@sluice/core";
import { curlLine, definedMembers } from "@sluice/core/internal";
import { createAwaitedCalls } from "../confine/awaited-calls.ts";
import type { BridgeCalls, RelayHooks } from "../messages/hooks.ts";
import { isCall, membersOf } from "../messages/messages.ts";
import { findPlaces, mimeTypeOf, type FoundPlace } from "../spool/found-places.ts";
import type { SpoolLimits } from "../spool/message-spooler.ts";
import {
  releaseAnswer,
  type SpooledString,
  type SpoolPart,
  type SpoolTarget,
} from "../spool/spooled-string.ts";
import { spooledFetch, spooledLines } from "../spool/json-spooler.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { ownFault, type ResultHold } from "./result-hold.ts";
import { rewriteWith, factsOf, withPreview } from "../spool/rewrite-spooled.ts";

/** A large result, or a part of one, that a hold keeps. */
export interface HeldResult {
  /** URI below the base of the hold: what `sluice.link` takes. No host hears it. */
  readonly uri: string;
  /** Safe file name. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** As the server says; it need not be true. */
  readonly mimeType: string | undefined;
}

/** Options of {@link openResultLinks}. */
export interface ResultLinksOptions {
  /** Where large results are until their links are over; sessions share one. */
  readonly hold: ResultHold;
  /**
   * Makes the link to a result, for the caller of this session: `(result) => sluice.link(result.uri, { caller })`. An
   * error of it is the response to the call.
   */
  readonly link: (result: HeldResult) => Promise<HeldLink>;
  /** Longest string of a result that the host gets itself, in bytes. Default: 64 KiB. */
  readonly inlineBytes?: number | undefined;
  /** Maximum bytes of all strings of one result. Default: 1 GiB. */
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
 * Opens the links of one session. Strings of results longer than `inlineBytes` go into the hold while they come, and the
 * host gets a link in their place, with name, size, type, SHA-256 and the beginning. Nothing is written to a disk. An
 * answer that has no room, or gets no link, becomes an error that says what to do.
 */
export async function openResultLinks(options: ResultLinksOptions): Promise<ResultLinks> {
  const { hold, link, inlineBytes = 65_536, maxResultBytes = 2 ** 30 } = options;
  const { onError = (error) => console.error(error) } = options;
  const spooled = new Map<string, SpooledString>();
  const awaited = createAwaitedCalls((id, message) =>
    releaseAnswer(spooled, ({ place }) => hold.drop(place), id, message),
  );
  const sessionEnd = new AbortController();
  const share = hold.openShare();
  const under = trackParts(share);
  const limits: SpoolLimits = {
    target: under.target,
    spooled,
    inlineBytes,
    maxBytes: maxResultBytes,
    isAwaited: (id) => awaited.has(id),
    hasReader: () => awaited.hasAny(),
    signal: sessionEnd.signal,
  };
  let relay: BridgeCalls | undefined;
  /** Revision that a host with sessions speaks. */
  let sessionRevision = "";

  /** Only the response to this request is awaited on the stream that it opens. */
  function limitsOf(body: unknown): SpoolLimits {
    const ids = idsIn(body);
    if (ids.length === 0) return limits;
    return { ...limits, hasReader: () => ids.some((id) => awaited.has(id)) };
  }

  async function linkTo(held: SpooledString, mimeType: string | undefined): Promise<LinkedString> {
    const { place: uri, name, bytes: size, sha256 } = held;
    try {
      const heldLink = await link({ uri, name, size, sha256, mimeType });
      hold.keep(uri, heldLink.expiresAt);
      return { held, link: heldLink };
    } catch (error) {
      if (!SluiceError.is(error)) onError(error);
      const code = SluiceError.is(error) ? error.code : "internal";
      throw ownFault(code, `no link to a large result could be made (${code}); ask again later`);
    }
  }

  async function withLinks(
    request: JSONRPCRequest,
    response: JSONRPCResponse,
  ): Promise<JSONRPCResponse> {
    const places = findPlaces(response, new Set(spooled.keys()));
    if (places.length === 0) return response;
    const strings = places.map(({ marker, holder }) => ({ held: spooled.get(marker)!, holder }));
    for (const { held } of strings) spooled.delete(held.id);
    try {
      const linked = new Map<string, LinkedString>();
      for (const { held, holder } of strings)
        linked.set(held.id, await linkTo(held, mimeTypeOf(holder)));
      const withBlocks = toolMethods.has(request.method) && takesLinks();
      return linkSpooled(response, linked, withBlocks) as JSONRPCResponse;
    } catch (error) {
      await Promise.all(strings.map(({ held }) => hold.drop(held.place)));
      if (!SluiceError.is(error)) throw error;
      const { message, code } = error;
      const { id } = response;
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
      sessionEnd.abort(ownFault("unavailable", "the session ends"));
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
  // a form of OAuth has no ids
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

interface LinkedString {
  readonly held: SpooledString;
  readonly link: HeldLink;
}

/**
 * Puts words for a model in the place of strings that have a link, in the shapes that `rewriteSpooled` gives. With
 * `withBlocks`, a block of the content of a tool is followed by a `resource_link` for each of its links.
 */
function linkSpooled(
  message: JSONRPCMessage,
  linked: ReadonlyMap<string, LinkedString>,
  withBlocks: boolean,
): JSONRPCMessage {
  const previewBytes = Math.floor(maxPreviewBytes / linked.size);
  const byString = new Map([...linked.values()].map(({ held, link }) => [held, link]));
  const linkOf = (held: SpooledString): HeldLink => byString.get(held)!;
  return rewriteWith(withBlocks ? addBlocks(message, linked) : message, {
    file: (marker) => linked.get(marker)?.held,
    describe: (held, mimeType) => describeLink(held, linkOf(held), { mimeType, previewBytes }),
    sentence: (held) => linkSentence(held, linkOf(held)),
  });
}

/** Of all previews of a message, as JSON carries them. A link stands there up to three times, and 2 KiB are enough. */
const maxPreviewBytes = 512;

function addBlocks(
  message: JSONRPCMessage,
  linked: ReadonlyMap<string, LinkedString>,
): JSONRPCMessage {
  const { result } = message as { readonly result?: unknown };
  const { content } = membersOf(result);
  if (!Array.isArray(content)) return message;
  const markers = new Set(linked.keys());
  const blocks = content.flatMap((block: unknown): unknown[] => [
    block,
    ...findPlaces(block, markers).map((place) => blockFor(place, linked.get(place.marker)!)),
  ]);
  return { ...message, result: { ...membersOf(result), content: blocks } };
}

function blockFor({ holder }: FoundPlace, { held, link }: LinkedString): object {
  return linkBlock(held, link, mimeTypeOf(holder));
}

/** A link to a held result. */
export interface HeldLink {
  readonly url: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** What a model is told in place of a string: name, size, media type, digest, the link, and how the text begins. */
function describeLink(
  held: SpooledString,
  link: HeldLink,
  {
    mimeType,
    previewBytes,
  }: { readonly mimeType: string | undefined; readonly previewBytes: number },
): string {
  const text =
    `This content is behind a link: it is too large to show.\n${held.name}, ${factsOf(held, mimeType)}. ` +
    `Open or fetch it within ${minutesOf(link)} min, no Authorization header:\n${link.url}\n` +
    `${curlLine(link.url, held.name)}\n` +
    "Your sandbox cannot reach that host? Allow it, or give the user the link.";
  return withPreview(text, held, previewBytes);
}

/** The same in one sentence, for a string whose place has no room for more. */
function linkSentence(held: SpooledString, link: HeldLink): string {
  return `Behind the link ${link.url} for ${minutesOf(link)} min (${held.name}, ${factsOf(held, undefined)})`;
}

/** The same as a content block (MCP 2025-06-18, server/tools, "Resource Links"). */
function linkBlock(
  { name, bytes, coding }: SpooledString,
  { url }: HeldLink,
  mimeType = coding === "text" ? "text/plain" : undefined,
): object {
  return definedMembers({ type: "resource_link", uri: url, name, size: bytes, mimeType });
}

function minutesOf({ expiresAt }: HeldLink): number {
  return Math.max(1, Math.round((expiresAt - Date.now()) / 60_000));
}
