import type { Resource } from "@modelcontextprotocol/server";
import { formatEntityTag } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import { resourceName } from "./resource-type.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";

/** What the author of a server knows about a resource beside what storage knows. */
export interface ResourceMetadata {
  /** For people, where the name is not made for them. */
  readonly title?: string;
  readonly description?: string;
  /** Whom the resource is for. */
  readonly audience?: readonly ("user" | "assistant")[];
  /** From 0, least important, to 1. Any other number is left out, and `onError` is told. */
  readonly priority?: number;
}

/** Tells what an author knows about a resource, from what storage knows; `undefined` when nothing. */
export type DescribeResource = (
  info: ObjectInfo,
  uri: string,
) => ResourceMetadata | undefined | Promise<ResourceMetadata | undefined>;

/** What marks a resource or a template as streamable: literally, and where SDKs keep it. */
export const streamableMark: {
  readonly streamable: true;
  readonly _meta: Record<string, unknown>;
} = { streamable: true, _meta: { [EXTENSION_ID]: { streamable: true } } };

/** An object as an entry of `resources/list`; its etag is in `_meta`, for caches and for pinned reads. */
export async function resourceEntry(
  parts: SluiceParts,
  info: ObjectInfo,
  { mimeType, isMarked }: { mimeType: string | undefined; isMarked: boolean },
): Promise<Resource> {
  const { size, lastModified, etag } = info;
  const uri = parts.mapper.toUri(info.key);
  const { title, description, audience, priority } =
    (await parts.options.describe?.(info, uri)) ?? {};
  const annotations = {
    ...(audience && { audience: [...audience] }),
    ...(priority !== undefined && isPriority(parts, uri, priority) && { priority }),
    ...(lastModified && { lastModified: lastModified.toISOString() }),
  };
  const meta = {
    ...(isMarked && { streamable: true }),
    ...(etag !== undefined && { etag: formatEntityTag(etag) }),
  };
  return {
    uri,
    name: resourceName(info.key),
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
    ...(size !== undefined && { size }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ...(isMarked && { streamable: true }),
    ...(Object.keys(meta).length > 0 && { _meta: { [EXTENSION_ID]: meta } }),
  };
}

/** True from 0 to 1. SDK clients refuse a whole page for one number beyond. */
function isPriority({ onError }: SluiceParts, uri: string, priority: number): boolean {
  const isFit = priority >= 0 && priority <= 1;
  if (!isFit)
    onError(
      new RangeError(`sluice: describe of ${uri}: priority is from 0 to 1 and not ${priority}`),
    );
  return isFit;
}
