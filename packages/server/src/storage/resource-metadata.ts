import type { Resource } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  EXTENSION_ID,
  formatContentType,
  formatEntityTag,
  parseMediaType,
  trueFileName,
  within,
} from "@sluice/core/internal";
import type { ObjectInfo, UriMapper } from "@sluice/storage";

/** What the author of a server knows about a resource beside what storage knows. */
export interface ResourceMetadata {
  /**
   * Media type in place of what storage, name and content tell: in lists, links, and with the content. Sent without parameters
   * but the charset of text. A malformed one is left out, and `onError` is told.
   */
  readonly mimeType?: string;
  /**
   * False for a resource that is not streamed: lists do not mark it, `resources/stream` refers to `resources/read`
   * (SEP-2532), and its download URLs answer 404. Default true.
   */
  readonly streamable?: boolean;
  /** For people, where the name is not made for them. */
  readonly title?: string;
  readonly description?: string;
  /** The readers that the resource is for. Any other is left out, and `onError` is told. */
  readonly audience?: readonly ("user" | "assistant")[];
  /** From 0, least important, to 1. Any other number is left out, and `onError` is told. */
  readonly priority?: number;
}

/**
 * Tells what an author knows about a resource, from what storage knows; `undefined` when nothing. Asked once for a version in
 * a request. One that takes longer than 10 s has failed.
 */
export type DescribeResource = (
  info: ObjectInfo,
  uri: string,
) => ResourceMetadata | undefined | Promise<ResourceMetadata | undefined>;

/** Asks the author about an object. What it gives is checked: none of it is malformed. Rejects as the author's hook does. */
export type AskMetadata = (info: ObjectInfo, signal?: AbortSignal) => Promise<ResourceMetadata>;

/** A hook, and where its faults go. */
interface MetadataHook {
  readonly mapper: UriMapper;
  readonly describe: DescribeResource;
  readonly onError: (error: unknown) => void;
}

const hookTimeoutMs = 10_000;

function createAskMetadata({ mapper, describe, onError }: MetadataHook): AskMetadata {
  return async (info, signal) => {
    const uri = mapper.toUri(info.key);
    const expired = (): SluiceError =>
      new SluiceError("timeout", `sluice: describe of ${uri} took ${hookTimeoutMs} ms`);
    const answer = describe(info, uri);
    // most hooks look nothing up: they need no timer
    const described = isThenable(answer)
      ? await within(Promise.resolve(answer), { timeoutMs: hookTimeoutMs, expired, signal })
      : answer;
    return checked(described, (finding) =>
      onError(new TypeError(`sluice: describe of ${uri}: ${finding}`)),
    );
  };
}

function isThenable<Value>(value: Value | Promise<Value>): value is Promise<Value> {
  return typeof (value as { then?: unknown } | undefined)?.then === "function";
}

/** The members that clients take: SDK clients refuse a whole page for one that is malformed. */
function checked(told: unknown, complain: (finding: string) => void): ResourceMetadata {
  if (told === undefined || told === null) return {};
  if (typeof told !== "object") complain(`it gave ${typeof told} and no object`);
  const members = Object(told) as Readonly<Record<string, unknown>>;

  /** A member that passes a test. A database has null where it has nothing. */
  function member<Value>(
    name: keyof ResourceMetadata,
    isRight: (value: unknown) => value is Value,
    wanted: string,
  ): Value | undefined {
    const value = members[name] ?? undefined;
    if (value === undefined || isRight(value)) return value;
    complain(`${name} is ${wanted} and not ${formatValue(value)}`);
    return undefined;
  }

  const mimeType = member("mimeType", isMediaType, "a media type");
  const { streamable: mark } = members;
  const streamable = member("streamable", isBoolean, "true or false");
  return definedMembers({
    mimeType: mimeType === undefined ? undefined : formatContentType(mimeType),
    // anything but a boolean counts as false: better not streamed than streamed by mistake
    streamable: streamable ?? ((mark ?? undefined) === undefined ? undefined : false),
    title: member("title", isText, "a text"),
    description: member("description", isText, "a text"),
    audience: member("audience", isAudience, 'a list of "user" and "assistant"'),
    priority: member("priority", isPriority, "from 0 to 1"),
  });
}

const isText = (value: unknown): value is string => typeof value === "string";
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";

function isMediaType(value: unknown): value is string {
  return isText(value) && parseMediaType(value) !== undefined;
}

function isPriority(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 1;
}

function isAudience(value: unknown): value is ("user" | "assistant")[] {
  return Array.isArray(value) && value.every((role) => role === "user" || role === "assistant");
}

function formatValue(value: unknown): string {
  return typeof value === "number" ? String(value) : (JSON.stringify(value) ?? typeof value);
}

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
  /** Asks the author about an object; absent if no hook is set. */
  readonly about: AskMetadata | undefined;
  /**
   * An object as an entry of `resources/list`; its etag is in `_meta`, for caches and for pinned reads. If the
   * author's hook fails, the entry says what storage knows and has no mark, and `onError` is told.
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
      const facts = known ?? (await tryAbout(info, signal));
      const { title, description, audience, priority } = facts;
      const annotations = definedMembers({
        audience: audience ? [...audience] : undefined,
        priority,
        lastModified: lastModified?.toISOString(),
      });
      const streamable = isMarked && facts.streamable !== false ? (true as const) : undefined;
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
          mimeType: facts.mimeType ?? mimeType,
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
