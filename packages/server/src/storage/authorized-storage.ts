import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, discardSource } from "@sluice/core/internal";
import {
  protect,
  type CallOptions,
  type ObjectInfo,
  type OpenedObject,
  type OpenOptions,
  type PresignedUrl,
  type PresignOptions,
  type StorageBackend,
  type UriMapper,
} from "@sluice/storage";
import { createBytesBody, withBody, type KeptObject } from "@sluice/storage/plugin";
import { ensureAllowed, type Access, type AccessAction } from "../access/access.ts";
import { contentHeads, metadataHeads, type ContentHeads } from "../content/content-head.ts";
import {
  hiddenFault,
  isUnsupported,
  rethrowAsAbsent,
  rethrowStorageFault,
  rethrowUnlessAbsent,
  storageFault,
} from "../faults/storage-fault.ts";
import type { AskMetadata, ResourceMetadata } from "./resource-metadata.ts";

/** What one principal may use of storage for one resource. Rejects with what a client may learn. */
export interface AuthorizedStorage
  extends Pick<StorageBackend, "describe" | "open" | "presign" | "presignOrigins">, ContentHeads {
  /** What the author of the server knows about an object; absent if nothing was said. */
  readonly about?: AskMetadata;
  /** The whole object from memory, if what lies there is what is stored now; otherwise `undefined`: use `open`. */
  findKept?(): KeptObject | undefined;
}

/** What a principal wants to do with a resource. */
export interface AuthorizationRequest {
  readonly principal: Principal | undefined;
  readonly key: string;
  readonly action: AccessAction;
  /** Canonical URI of the key, where it is known already. */
  readonly uri?: string;
}

/** Gives each principal its storage. */
export interface StorageAccess {
  /** The backend of a principal, behind `protect`; `undefined` for one that has none. Access rules are not asked. */
  readonly backendFor: (principal: Principal | undefined) => StorageBackend | undefined;
  /**
   * Asks the access rules and gives what may be used of storage. Throws, or rejects with, `permission_denied` for `deny`.
   * After `hide` the resource is missing, and looking for it takes the calls to storage that a missing one
   * takes: neither the response nor its time tells the two apart.
   */
  readonly authorize: (
    request: AuthorizationRequest,
  ) => AuthorizedStorage | Promise<AuthorizedStorage>;
}

interface StorageAccessOptions {
  readonly storage:
    | StorageBackend
    | ((principal: Principal | undefined) => StorageBackend | undefined);
  readonly access: Access;
  readonly mapper: UriMapper;
  /**
   * True for a provider, which makes a resource when it is asked. Then nothing is read ahead or retried, and a hidden
   * caller causes no call. Default: false.
   */
  readonly isMade?: boolean;
}

/** Puts access rules in front of storage. */
export function createStorageAccess(options: StorageAccessOptions): StorageAccess {
  const backendFor = options.isMade
    ? backendsOf(options.storage)
    : protectedBackends(options.storage);
  return {
    backendFor,
    authorize: (request) => authorize(options, backendFor(request.principal), request),
  };
}

function backendsOf(storage: StorageAccessOptions["storage"]): StorageAccess["backendFor"] {
  return typeof storage === "function" ? storage : () => storage;
}

function protectedBackends(storage: StorageAccessOptions["storage"]): StorageAccess["backendFor"] {
  if (typeof storage !== "function") {
    const one = protectedOnce(storage);
    return () => one;
  }
  return (principal) => {
    const backend = storage(principal);
    return backend && protectedOnce(backend);
  };
}

/** Each backend with `protect` around it once: all mounts and principals that use it share its pauses, retries and watch. */
function protectedOnce(backend: StorageBackend): StorageBackend {
  let safe = protectedBackend.get(backend);
  if (!safe) protectedBackend.set(backend, (safe = protect(backend)));
  return safe;
}

const protectedBackend = new WeakMap<StorageBackend, StorageBackend>();

function authorize(
  options: StorageAccessOptions,
  storage: StorageBackend | undefined,
  request: AuthorizationRequest,
): AuthorizedStorage | Promise<AuthorizedStorage> {
  if (!storage) throw hiddenFault;
  const { access, mapper } = options;
  const { principal, key, action, uri } = request;
  if (!access.hasRules) return new AllowedStorage(options, storage, request);
  const decision = access.decide(principal, uri ?? mapper.toUri(key), action);
  // a synchronous rule must not cost a turn of the event loop
  if (decision === "allow") return new AllowedStorage(options, storage, request);
  return Promise.resolve(decision).then((decided) => {
    if (decided === "allow") return new AllowedStorage(options, storage, request);
    if (decided === "deny") ensureAllowed(decided);
    if (options.isMade) throw hiddenFault;
    return new HiddenStorage(storage, key);
  });
}

/**
 * Storage of a caller that may have the resource, with the faults that a client may learn. A class rather than
 * closures, because every response with bytes makes one.
 */
class AllowedStorage implements AuthorizedStorage {
  declare readonly presign?: NonNullable<AuthorizedStorage["presign"]>;
  declare readonly presignOrigins?: NonNullable<AuthorizedStorage["presignOrigins"]>;
  readonly #options: StorageAccessOptions;
  readonly #storage: StorageBackend;
  readonly #request: AuthorizationRequest;

  constructor(
    options: StorageAccessOptions,
    storage: StorageBackend,
    request: AuthorizationRequest,
  ) {
    this.#options = options;
    this.#storage = storage;
    this.#request = request;
    if (storage.presign) this.presign = (key, signing) => this.#presign(key, signing);
    if (storage.presignOrigins)
      this.presignOrigins = (call) => storage.presignOrigins!(call).catch(rethrowStorageFault);
  }

  findKept(): KeptObject | undefined {
    const { key } = this.#request;
    const inMemory = this.#storage.open.inMemory?.(key);
    // stored under another key: the rules must be asked about that one, so let `open` do it
    return inMemory?.info.key === key ? inMemory : undefined;
  }

  async describe(key: string, options?: CallOptions): Promise<ObjectInfo> {
    try {
      return await this.#describeAllowed(key, options);
    } catch (error) {
      throw storageFault(error);
    }
  }

  async open(key: string, options?: OpenOptions): Promise<OpenedObject> {
    try {
      return await this.#openAllowed(key, options);
    } catch (error) {
      throw storageFault(error);
    }
  }

  typeOf(info: ObjectInfo, options?: CallOptions): Promise<string> {
    return this.#heads.typeOf(info, options).catch(rethrowStorageFault);
  }

  isText(info: ObjectInfo, options?: CallOptions): Promise<boolean> {
    return this.#heads.isText(info, options).catch(rethrowStorageFault);
  }

  get #heads(): ContentHeads {
    return this.#options.isMade ? metadataHeads : contentHeads(this.#storage, this.#request.key);
  }

  #presign(key: string, options: PresignOptions): Promise<PresignedUrl | undefined> {
    return this.#storage.presign!(key, options).catch(rethrowStorageFault);
  }

  async #describeAllowed(key: string, options?: CallOptions): Promise<ObjectInfo> {
    if (!this.#options.access.hasRules) return this.#storage.describe(key, options);
    const info = await this.#storage.describe(key, options).catch(rethrowAsAbsent);
    await this.#ensureAllowedAs(info);
    return info;
  }

  async #openAllowed(key: string, options?: OpenOptions): Promise<OpenedObject> {
    let opened: OpenedObject;
    try {
      opened = await this.#storage.open(key, options);
    } catch (error) {
      // `describe` turns a folder into `not_found`; an archived object stays `unsupported`
      if (this.#options.access.hasRules && isUnsupported(error))
        await this.#describeAllowed(key, options);
      throw error;
    }
    if (opened.info.key !== this.#request.key)
      await useOrDiscard(opened, () => this.#ensureAllowedAs(opened.info));
    return opened;
  }

  /**
   * Through a link or a case-insensitive file system, a key can reach an object with another key. The rules must allow
   * that one as well.
   */
  async #ensureAllowedAs({ key }: ObjectInfo): Promise<void> {
    const { access, mapper } = this.#options;
    const { principal, key: requestedKey, action } = this.#request;
    if (key === requestedKey || !access.hasRules) return;
    ensureAllowed(await access.decide(principal, mapper.toUri(key), action));
  }
}

/**
 * Storage in which everything is missing. Each call does for a random key what it would do for a missing object, so
 * that timing reveals nothing.
 */
class HiddenStorage implements AuthorizedStorage {
  readonly #storage: StorageBackend;
  readonly #heads: ContentHeads;

  constructor(storage: StorageBackend, key: string) {
    this.#storage = storage;
    this.#heads = contentHeads(storage, key);
  }

  async describe(key: string, options?: CallOptions): Promise<ObjectInfo> {
    await this.#storage
      .describe(absentBeside(key), options)
      .catch(rethrowUnlessAbsent)
      .catch(rethrowStorageFault);
    throw hiddenFault;
  }

  async open(key: string, options?: OpenOptions): Promise<OpenedObject> {
    const opened = await this.#storage
      .open(absentBeside(key), options)
      .catch(rethrowUnlessAbsent)
      .catch(rethrowStorageFault);
    // some storage has an object for every key
    if (opened) await discardSource(opened, hiddenFault);
    throw hiddenFault;
  }

  typeOf(info: ObjectInfo, options?: CallOptions): Promise<string> {
    return this.#heads.typeOf(info, options).catch(rethrowStorageFault);
  }

  isText(info: ObjectInfo, options?: CallOptions): Promise<boolean> {
    return this.#heads.isText(info, options).catch(rethrowStorageFault);
  }
}

/** Gives what `use` makes of an opened object. Discards the object when `use` throws. */
export async function useOrDiscard<Result>(
  opened: OpenedObject | undefined,
  use: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await use();
  } catch (error) {
    if (opened) await discardSource(opened, error);
    throw error;
  }
}

const maxKeyBytes = 1_024;

/** A name that no object has: random for each process. Some runtimes give no randomness while they load. */
let absentName: string | undefined;

/** A key that is missing in the same folder. */
function absentBeside(key: string): string {
  absentName ??= crypto.randomUUID();
  const folder = key.slice(0, key.lastIndexOf("/") + 1);
  const room = maxKeyBytes - new TextEncoder().encode(folder).length;
  return folder + absentName.slice(0, room);
}

/** What lies in memory, as `open` would give it. */
export class OpenedKept implements OpenedObject {
  readonly info: ObjectInfo;
  readonly bytes: Uint8Array;

  constructor({ info, bytes }: KeptObject) {
    this.info = info;
    this.bytes = bytes;
  }

  get body(): ReadableStream<Uint8Array> {
    // a reader of a body owns its chunks
    return createBytesBody(new Uint8Array(this.bytes), undefined);
  }
}

/** Thrown by a stream of a resource that its author serves only by `resources/read`. */
export const readAloneFault: SluiceError = new SluiceError(
  "unsupported",
  "sluice: stream: the author serves it by read alone",
);

/** Storage of each principal with what the author of the server knows about the objects that the principal may have. */
export function describedAccess(storageAccess: StorageAccess, ask: AskMetadata): StorageAccess {
  return {
    backendFor: storageAccess.backendFor,
    authorize: async (request) =>
      withMetadata(await storageAccess.authorize(request), ask, request.action),
  };
}

/**
 * Storage of one request with what the author of the server knows about its objects: their media type counts in place of that of
 * storage, and what is not streamed is `unsupported` to `stream`. The author is asked once for a version.
 */
function withMetadata(
  storage: AuthorizedStorage,
  ask: AskMetadata,
  action: AccessAction,
): AuthorizedStorage {
  const { presign, presignOrigins } = storage;
  const byInfo = new WeakMap<ObjectInfo, Promise<ResourceMetadata>>();
  let last: { readonly version: string; readonly known: Promise<ResourceMetadata> } | undefined;

  function about(info: ObjectInfo, signal?: AbortSignal): Promise<ResourceMetadata> {
    const { etag, key } = info;
    const version = etag === undefined ? undefined : `${etag} ${key}`;
    let facts = byInfo.get(info) ?? (last?.version === version ? last?.known : undefined);
    if (facts) return facts;
    facts = ask(info, signal);
    byInfo.set(info, facts);
    if (version !== undefined) last = { version, known: facts };
    return facts;
  }

  async function described(info: ObjectInfo, signal: AbortSignal | undefined): Promise<ObjectInfo> {
    const facts = await about(info, signal);
    if (action === "stream" && facts.streamable === false) throw readAloneFault;
    if (facts.mimeType === undefined) return info;
    const typed = { ...info, contentType: facts.mimeType };
    byInfo.set(typed, Promise.resolve(facts));
    return typed;
  }

  // no `findKept`: the author has to be asked first
  return {
    ...definedMembers({ presign, presignOrigins }),
    about,
    describe: async (key, options) =>
      described(await storage.describe(key, options), options?.signal),
    async open(key, options) {
      const opened = await storage.open(key, options);
      const info = await useOrDiscard(opened, () => described(opened.info, options?.signal));
      const { range, file, bytes } = opened;
      return withBody({ info, range, file, bytes }, () => opened.body);
    },
    // the author's type wins: storage may only know a generic one
    typeOf: async (info, options) =>
      (await about(info, options?.signal)).mimeType ?? storage.typeOf(info, options),
    isText: (info, options) => storage.isText(info, options),
  };
}
