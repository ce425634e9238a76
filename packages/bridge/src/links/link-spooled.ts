import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { membersOf } from "../messages/messages.ts";
import { findPlaces, mediaTypeOf, type FoundPlace } from "../spool/found-places.ts";
import { rewriteWith } from "../spool/rewrite-spooled.ts";
import type { SpooledString } from "../spool/spooled-string.ts";
import { describeLink, linkBlock, linkSentence, type HeldLink } from "./describe-link.ts";

/** A string of a message, and its link. */
export interface LinkedString {
  readonly held: SpooledString;
  readonly link: HeldLink;
}

/**
 * Puts words for a model in the place of strings that have a link, in the shapes that `rewriteSpooled` gives. With
 * `withBlocks`, a block of the content of a tool is followed by a `resource_link` for each of its links.
 */
export function linkSpooled(
  message: JSONRPCMessage,
  linked: ReadonlyMap<string, LinkedString>,
  withBlocks: boolean,
): JSONRPCMessage {
  const previewBytes = Math.floor(mostPreviewBytes / linked.size);
  const byString = new Map([...linked.values()].map(({ held, link }) => [held, link]));
  const linkOf = (held: SpooledString): HeldLink => byString.get(held)!;
  return rewriteWith(withBlocks ? addBlocks(message, linked) : message, {
    file: (marker) => linked.get(marker)?.held,
    describe: (held, mediaType) => describeLink(held, linkOf(held), { mediaType, previewBytes }),
    sentence: (held) => linkSentence(held, linkOf(held)),
  });
}

/** Of all previews of a message, as JSON carries them. A link stands there up to three times, and 2 KiB are enough. */
const mostPreviewBytes = 512;

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
  return linkBlock(held, link, mediaTypeOf(holder));
}
