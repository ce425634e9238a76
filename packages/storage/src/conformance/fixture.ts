import type { StorageBackend } from "../contract/backend.ts";
import type { GeneratedContent } from "../memory/memory-backend.ts";

/**
 * A fresh, empty store with its backend, as the kit needs it. `backend`, `put` and `remove` are
 * enough to begin; each further hook lets more rules run. An absent hook is reported, never
 * silently skipped. Hooks are called as plain functions, without `this`.
 */
export interface Fixture {
  /** The backend under test, without any wrapper. */
  readonly backend: StorageBackend;
  /** Puts an object into the store past the backend, replacing an earlier one; resolves when it is readable. */
  readonly put: (key: string, content: Uint8Array) => Promise<void>;
  /** Removes an object past the backend. */
  readonly remove: (key: string) => Promise<void>;
  /** Differences of this store. */
  readonly traits?: Traits;
  /**
   * Why hooks and faults are not there, where it is the store's nature and not a missing test:
   * `{ putTyped: "files have no type" }`. `faults` speaks for all faults.
   */
  readonly why?: Readonly<Partial<Record<keyof Fixture | keyof Faults, string>>>;

  /** Like `put`, for stores that keep the type and the coding of an object. */
  readonly putTyped?: (key: string, content: Uint8Array, type: StoredType) => Promise<void>;
  /** Puts an object of `size` bytes: zeros, and `tail` at its very end. It should cost no space. */
  readonly putLarge?: (key: string, size: number, tail: Uint8Array) => Promise<void>;
  /** Changes the bytes of an object in place, so that open readers may see it. Same length. */
  readonly overwrite?: (key: string, content: Uint8Array) => Promise<void>;
  /** Changes metadata of an object and not its bytes. */
  readonly touch?: (key: string) => Promise<void>;
  /** Makes something that exists and has no bytes to read (a folder, a pipe) and gives its key. */
  readonly putFolder?: () => Promise<string>;
  /**
   * Fills the store with files that must not be listed (temporary files, folder markers, names
   * without a legal key).
   */
  readonly putClutter?: () => Promise<void>;
  /** Another spelling that names the same object, for example in other case. */
  readonly alias?: (key: string) => string;
  /** Puts an object outside the backend's root and gives keys that a careless backend would find it by. */
  readonly putOutside?: () => Promise<Outside>;
  /** A second backend over the same store, as another process would have it. */
  readonly reopen?: () => Promise<StorageBackend>;
  /** Faults of the service, each for the next request or body only unless it says otherwise. */
  readonly faults?: Faults;

  /** Resources held now: descriptors, sockets, streams. Compared before and after every rule. */
  readonly countHandles?: () => number | Promise<number>;
  /** Requests sent to the service so far. */
  readonly countRequests?: () => number;
  /** Bytes of content that left the store so far. */
  readonly countBytes?: () => number;
  /** Leftovers of unfinished or aborted writes: temporary files, parts. */
  readonly countLeftovers?: () => number | Promise<number>;
  /** Strings that no message may contain: credentials, tokens, hosts. */
  readonly secrets?: readonly string[];
  /** Fetches a presigned URL. Default: the global `fetch`. */
  readonly fetch?: (url: string, init?: RequestInit) => Promise<Response>;
  /** Lets time pass for presigned URLs. Default: waits. */
  readonly passTime?: (ms: number) => Promise<void>;
  /** Removes the store. Called once, after the rule. */
  readonly dispose?: () => Promise<void>;
}

/** Declared differences of a store. A rule that meets one is adapted, or absent with this reason. */
export interface Traits {
  /** The backend cannot know sizes before reading. */
  readonly withoutSize?: true;
  /** The backend has no strong validators. */
  readonly withoutEtag?: true;
  /** The store keeps no content coding with an object, or the backend cannot see it. */
  readonly withoutCoding?: true;
  /** `a` and `A` are one object. */
  readonly caseInsensitive?: true;
  /** NFC and NFD spellings are one object. */
  readonly normalizing?: true;
  /** `describe` takes a folder for an object. */
  readonly describesFolders?: true;
  /** Legal keys that this store refuses with `invalid_argument`. */
  readonly refuses?: (key: string) => boolean;
  /** Longest key of this store in UTF-8 bytes, when that is less than 1024. */
  readonly maxKeyBytes?: number;
  /** Bytes of one part of a multi-part write. Default: 1 MiB. */
  readonly partBytes?: number;
  /** When the credentials that sign URLs expire. */
  readonly credentialsExpireAt?: Date;
  /** Life of every presigned URL in milliseconds if the service decides it; `expiresAt` may be earlier. */
  readonly urlLifeMs?: number;
}

/** What {@link Fixture.putTyped} keeps. */
export interface StoredType {
  readonly contentType?: string;
  readonly contentEncoding?: string;
}

/** Keys that would reach beyond the root, by how they try. */
export interface Outside {
  /** To a sibling whose name starts like the root's: `../root-evil/x`. */
  readonly sibling: readonly string[];
  /** By dots, links, aliases, encodings. */
  readonly escapes: readonly string[];
}

/** A response in place of an object. */
export interface ErrorPage {
  readonly type: string;
  readonly text: string;
  readonly isCounted: boolean;
}

/** Faults that a fixture can cause; presence is support. */
export interface Faults {
  /** The next body breaks after this many bytes, as a reset connection does. */
  readonly reset?: (afterBytes: number) => void;
  /** The next body ends cleanly after this many bytes, too early. */
  readonly truncate?: (afterBytes: number) => void;
  /** The next body has this many bytes beyond its end. */
  readonly overrun?: (extraBytes: number) => void;
  /** The next body gives this many bytes and then nothing, for ever. */
  readonly stall?: (afterBytes: number) => void;
  /** The next body has one wrong byte, at this offset. */
  readonly corrupt?: (atByte: number) => void;
  /** The service answers the next range request with the whole object. */
  readonly ignoreRange?: () => void;
  /** The service answers the next request for bytes with 200 and this page, with its length or without. */
  readonly page?: (page: ErrorPage) => void;
  /** The next answer with bytes names no version of the object, or another one than it has. */
  readonly validator?: (named: "none" | "other") => void;
  /** The next request is refused as too many, with this `Retry-After`. */
  readonly throttle?: (retryAfter: string) => void;
  /** The next request fails on the side of the service. */
  readonly fail?: () => void;
  /** The service does what the next request asks for, and its response is lost. */
  readonly loseAnswer?: () => void;
  /** Reading this key is forbidden from now on. */
  readonly deny?: (key: string) => void | Promise<void>;
  /** The service refuses the present credentials this many times. */
  readonly expireCredentials?: (times: number) => void;
}

/**
 * Content for {@link Fixture.putLarge} that costs no space: zeros, and `tail` at their very end. For stand-ins that
 * compute what they send.
 */
export function createLargeContent(size: number, tail: Uint8Array): GeneratedContent {
  const tailAt = size - tail.byteLength;
  return {
    size,
    read(start, end) {
      const bytes = new Uint8Array(end - start);
      const from = Math.max(start, tailAt);
      if (end > from) bytes.set(tail.subarray(from - tailAt, end - tailAt), from - start);
      return bytes;
    },
  };
}
