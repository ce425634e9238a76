import type { Resource } from "@modelcontextprotocol/server";
import { definedMembers, formatEntityTag } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { ObjectInfo, UriMapper } from "@sluice/storage";
import { resourceName } from "./resource-type.ts";

/** What the author of a server knows about a resource beside what storage knows. */
export interface ResourceMetadata {
  /** Media type in place of what storage and name tell: in lists, links, and with the content. */
  readonly mimeType?: string;
  /**
   * False for a resource that is not streamed: lists do not mark it, and `resources/stream` refers to `resources/read`
   * (SEP-2532). Default true.
   */
  readonly streamable?: boolean;
  /** For people, where the name is not made for them. */
  readonly title?: string;
  readonly description?: string;
  /** The readers that the resource is for. */
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

/** Says what a list and a link tell of an object. */
export interface ResourceEntries {
  /** What the author knows about an object; absent where no hook is set. */
  readonly about: ((info: ObjectInfo) => Promise<ResourceMetadata>) | undefined;
  /** An object as an entry of `resources/list`; its etag is in `_meta`, for caches and for pinned reads. */
  of(
    info: ObjectInfo,
    told: { readonly mimeType: string | undefined; readonly isMarked: boolean },
  ): Promise<Resource>;
}

interface ResourceEntriesOptions {
  readonly mapper: UriMapper;
  readonly describe: DescribeResource | undefined;
  readonly onError: (error: unknown) => void;
}

export function createResourceEntries({
  mapper,
  describe,
  onError,
}: ResourceEntriesOptions): ResourceEntries {
  /** A priority from 0 to 1. SDK clients refuse a whole page for one number beyond. */
  function checkedPriority(uri: string, priority: number | undefined): number | undefined {
    if (priority === undefined || (priority >= 0 && priority <= 1)) return priority;
    onError(
      new RangeError(`sluice: describe of ${uri}: priority is from 0 to 1 and not ${priority}`),
    );
    return undefined;
  }

  const about =
    describe && (async (info: ObjectInfo) => (await describe(info, mapper.toUri(info.key))) ?? {});

  return {
    about,
    async of(info, { mimeType, isMarked }) {
      const { size, lastModified, etag } = info;
      const uri = mapper.toUri(info.key);
      const known = (await about?.(info)) ?? {};
      const { title, description, audience, priority } = known;
      const annotations = definedMembers({
        audience: audience ? [...audience] : undefined,
        priority: checkedPriority(uri, priority),
        lastModified: lastModified?.toISOString(),
      });
      const streamable = isMarked && known.streamable !== false ? (true as const) : undefined;
      const meta = definedMembers({
        streamable,
        etag: etag === undefined ? undefined : formatEntityTag(etag),
      });
      return {
        uri,
        name: resourceName(info.key),
        ...definedMembers({
          title,
          description,
          mimeType: known.mimeType ?? mimeType,
          size,
          annotations: isEmpty(annotations) ? undefined : annotations,
          streamable,
          _meta: isEmpty(meta) ? undefined : { [EXTENSION_ID]: meta },
        }),
      };
    },
  };
}

function isEmpty(members: object): boolean {
  return Object.keys(members).length === 0;
}
