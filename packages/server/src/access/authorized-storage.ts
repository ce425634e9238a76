import { definedMembers, discardSource, SluiceError, type Principal } from "@sluice/core";
import {
  protect,
  type ObjectInfo,
  type OpenedObject,
  type StorageBackend,
  type UriMapper,
} from "@sluice/storage";
import type { AskMetadata } from "../metadata/resource-metadata.ts";
import { contentHeads, toldHeads, type ContentHeads } from "../resources/content-head.ts";
import { ensureAllowed, hiddenFault, type Access, type AccessAction } from "./access.ts";

/** What one principal may use of storage for one resource. Rejects with what a client may learn. */
export interface AuthorizedStorage
  extends Pick<StorageBackend, "describe" | "open" | "presign">, ContentHeads {
  /** What the author of the server knows about an object; absent where nothing was said. */
  readonly about?: AskMetadata;
}

/** What a principal wants to do with a resource. */
export interface AuthorizationRequest {
  readonly principal: Principal | undefined;
  readonly key: string;
  readonly action: AccessAction;
}

/** Gives each principal its storage. */
export interface StorageAccess {
  /** The backend of a principal, behind `protect`; `undefined` for one that has none. Access rules are not asked. */
  readonly of: (principal: Principal | undefined) => StorageBackend | undefined;
  /**
   * Asks the access rules and gives what may be used of storage. Throws `permission_denied` for `deny`.
   * After `hide` the resource is missing, and looking for it takes the calls to storage that a missing one
   * takes: neither the answer nor its time tells the two apart.
   */
  readonly authorize: (request: AuthorizationRequest) => Promise<AuthorizedStorage>;
}

interface StorageAccessOptions {
  readonly storage:
    | StorageBackend
    | ((principal: Principal | undefined) => StorageBackend | undefined);
  readonly access: Access;
  readonly mapper: UriMapper;
  /**
   * True where asking makes a resource: nothing is looked at ahead, repeated, or asked for on behalf of a caller that may not
   * have it. Default: false.
   */
  readonly isMade?: boolean;
}

/** Puts access rules in front of storage. */
export function createStorageAccess(options: StorageAccessOptions): StorageAccess {
  const of = options.isMade ? backendsOf(options.storage) : protectedBackends(options.storage);
  return {
    of,
    authorize: async (request) => authorize(options, of(request.principal), request),
  };
}

function backendsOf(storage: StorageAccessOptions["storage"]): StorageAccess["of"] {
  return typeof storage === "function" ? storage : () => storage;
}

function protectedBackends(storage: StorageAccessOptions["storage"]): StorageAccess["of"] {
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

async function authorize(
  { access, mapper, isMade = false }: StorageAccessOptions,
  storage: StorageBackend | undefined,
  { principal, key, action }: AuthorizationRequest,
): Promise<AuthorizedStorage> {
  if (!storage) throw hiddenFault;
  const describe = storage.describe.bind(storage);
  const open = storage.open.bind(storage);
  const presign = storage.presign?.bind(storage);
  const heads = isMade ? toldHeads : contentHeads(storage, key);
  const whole = { describe, open, ...definedMembers({ presign }), ...heads };
  if (!access.hasRules) return withClientFaults(whole);
  const decision = await access.decide(principal, mapper.toUri(key), action);
  if (decision === "deny") ensureAllowed(decision);
  if (decision !== "allow" && isMade) throw hiddenFault;
  if (decision !== "allow") return withClientFaults({ ...hidden(storage), ...heads });

  /** Links and file systems without case lead to an object under another name: that counts, too. */
  async function ensureSame(info: ObjectInfo): Promise<void> {
    if (info.key === key) return;
    ensureAllowed(await access.decide(principal, mapper.toUri(info.key), action));
  }

  const describeSame: AuthorizedStorage["describe"] = async (asked, options) => {
    const info = await describe(asked, options).catch(rethrowAsAbsent);
    await ensureSame(info);
    return info;
  };
  return withClientFaults({
    ...whole,
    describe: describeSame,
    async open(asked, options) {
      let opened: OpenedObject;
      try {
        opened = await open(asked, options);
      } catch (error) {
        // an archived object can be described, a folder cannot
        if (isUnsupported(error)) await describeSame(asked, options);
        throw error;
      }
      if (opened.info.key !== key) await orDiscard(opened, () => ensureSame(opened.info));
      return opened;
    },
  });
}

/** Gives what `use` makes of an opened object. Discards the object when `use` throws. */
export async function orDiscard<Result>(
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

/** The same storage with the faults that a client may learn. */
function withClientFaults(storage: AuthorizedStorage): AuthorizedStorage {
  const { describe, open, presign, typeOf, isText } = storage;
  const sign: AuthorizedStorage["presign"] =
    presign && ((key, options) => presign(key, options).catch(rethrowStorageFault));
  return {
    describe: (key, options) => describe(key, options).catch(rethrowStorageFault),
    open: (key, options) => open(key, options).catch(rethrowStorageFault),
    ...definedMembers({ presign: sign }),
    typeOf: (info, options) => typeOf(info, options).catch(rethrowStorageFault),
    isText: (info, options) => isText(info, options).catch(rethrowStorageFault),
  };
}

/**
 * What a fault of storage means to a client. What the service says about permissions concerns
 * the server's own credentials: a client learns neither that, nor that the object exists.
 */
function storageFault(error: unknown): unknown {
  if (!SluiceError.is(error)) return error;
  if (error.code === "permission_denied")
    return new SluiceError("not_found", "sluice: storage denies it", { cause: error });
  if (error.code === "unauthenticated")
    return new SluiceError("unavailable", "sluice: storage refuses our credentials", {
      cause: error,
    });
  return error;
}

/** For `catch` of calls of storage that is not authorized: throws what the fault means to a client. */
export function rethrowStorageFault(error: unknown): never {
  throw storageFault(error);
}

/** Nothing is found in it; each call makes the same way in storage as one for a missing object. */
function hidden(storage: StorageBackend): Pick<AuthorizedStorage, "describe" | "open"> {
  return {
    async describe(key, options) {
      await storage.describe(absentBeside(key), options).catch(rethrowUnlessAbsent);
      throw hiddenFault;
    },
    async open(key, options) {
      const opened = await storage.open(absentBeside(key), options).catch(rethrowUnlessAbsent);
      // a storage that has an answer to every key
      if (opened) await discardSource(opened, hiddenFault);
      throw hiddenFault;
    },
  };
}

/** A folder is no resource: a hidden one must look like a missing one. */
function rethrowAsAbsent(error: unknown): never {
  if (!isUnsupported(error)) throw error;
  throw new SluiceError("not_found", "sluice: it is no object", { cause: error });
}

function isUnsupported(error: unknown): boolean {
  return SluiceError.is(error) && error.code === "unsupported";
}

/** A storage that is down is down for missing and hidden objects alike. */
function rethrowUnlessAbsent(error: unknown): undefined {
  if (SluiceError.is(error) && absences.has(error.code)) return undefined;
  throw error;
}

/** What services say of a missing object; some deny it to callers that may not list. */
const absences: ReadonlySet<string> = new Set(["not_found", "permission_denied"]);

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
