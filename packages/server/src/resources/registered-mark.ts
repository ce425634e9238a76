import type { Resource, ResourceTemplateType } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/wire";
import { isProtocolType } from "../http/media-types.ts";

/** Marks an entry of an author's list as streamable. */
export type MarkRegistered = <Entry extends Resource | ResourceTemplateType>(entry: Entry) => Entry;

/**
 * Marks what can be streamed, as far as its entry tells. Left as they are: entries that have a mark of their author's, larger ones
 * than `maxBytes`, and those whose type never leaves as bytes.
 */
export function registeredMark(maxBytes: number): MarkRegistered {
  return (entry) => {
    const { streamable, size = 0, mimeType = "", _meta } = entry as Listed;
    const { [EXTENSION_ID]: known } = _meta ?? {};
    const meta = Object(known) as { readonly streamable?: unknown };
    if (streamable !== undefined || meta.streamable !== undefined) return entry;
    if (size > maxBytes || isProtocolType(mimeType)) return entry;
    const mark = { ...meta, streamable: true };
    return { ...entry, streamable: true, _meta: { ..._meta, [EXTENSION_ID]: mark } };
  };
}

interface Listed {
  readonly streamable?: unknown;
  readonly size?: number;
  readonly mimeType?: string;
  readonly _meta?: Readonly<Record<string, unknown>>;
}
