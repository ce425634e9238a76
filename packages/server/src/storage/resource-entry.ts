import type { Resource } from "@modelcontextprotocol/server";
import { definedMembers, formatEntityTag, trueFileName } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { ObjectInfo, UriMapper } from "@sluice/storage";
import {
  createAskMetadata,
  type AskMetadata,
  type DescribeResource,
  type ResourceMetadata,
} from "./resource-metadata.ts";

/** What marks a resource or a template as streamable: literally, and where SDKs keep it. */
export const streamableMark: {
  readonly streamable: true;
  readonly _meta: Record<string, unknown>;
} = { streamable: true, _meta: { [EXTENSION_ID]: { streamable: true } } };

/** What is told of an object. */
export interface EntryFacts {
  readonly mimeType: string | undefined;
  readonly isMarked: boolean;
  /** What the author knows, where the author was asked already. */
  readonly known?: ResourceMetadata | undefined;
  /** Ends the wait for the author. */
  readonly signal?: AbortSignal;
}

/** Says what a list and a link tell of an object. */
export interface ResourceEntries {
  /** Asks the author about an object; absent where no hook is set. */
  readonly about: AskMetadata | undefined;
  /**
   * An object as an entry of `resources/list`; its etag is in `_meta`, for caches and for pinned reads. Where the author's hook
   * fails, the entry says what storage knows and has no mark, and `onError` is told.
   */
  of(info: ObjectInfo, facts: EntryFacts): Promise<Resource>;
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
  const about = describe && createAskMetadata({ mapper, describe, onError });

  async function tryAbout(info: ObjectInfo, signal?: AbortSignal): Promise<ResourceMetadata> {
    try {
      return (await about?.(info, signal)) ?? {};
    } catch (error) {
      signal?.throwIfAborted();
      onError(error);
      return { streamable: false };
    }
  }

  return {
    about,
    async of(info, { mimeType, isMarked, known, signal }) {
      const { size, lastModified, etag } = info;
      const told = known ?? (await tryAbout(info, signal));
      const { title, description, audience, priority } = told;
      const annotations = definedMembers({
        audience: audience ? [...audience] : undefined,
        priority,
        lastModified: lastModified?.toISOString(),
      });
      const streamable = isMarked && told.streamable !== false ? (true as const) : undefined;
      const meta = definedMembers({
        streamable,
        etag: etag === undefined ? undefined : formatEntityTag(etag),
      });
      return {
        uri: mapper.toUri(info.key),
        name: trueFileName(info.key),
        ...definedMembers({
          title,
          description,
          mimeType: told.mimeType ?? mimeType,
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
