import { discardSource, SluiceError, type Principal } from "@sluice/core";
import type { ObjectInfo, StorageBackend, UriMapper } from "@sluice/storage";
import { contentHeads, type ContentHeads } from "../resources/content-head.ts";
import { ensureAllowed, hiddenFault, type Access, type AccessAction } from "./access.ts";

/** What one principal may use of storage for one resource. */
export interface Reach
  extends Pick<StorageBackend, "describe" | "open" | "presign">, ContentHeads {}

/** Who wants to do what with which resource. */
export interface ReachRequest {
  readonly principal: Principal | undefined;
  readonly key: string;
  readonly action: AccessAction;
}

/**
 * Asks the access rules and gives what may be used of storage. `deny` throws `permission_denied`.
 * `hide` gives a reach in which the resource is not there, and where looking for it takes the calls
 * to storage that a missing one takes: neither the answer nor its time tells the two apart.
 */
export async function reachOf(
  { access, mapper }: { access: Access; mapper: UriMapper },
  storage: StorageBackend,
  request: ReachRequest,
): Promise<Reach> {
  const { principal, key, action } = request;
  const heads = contentHeads(storage, key);
  const presign = storage.presign?.bind(storage);
  if (!access.hasRules)
    return {
      describe: storage.describe.bind(storage),
      open: storage.open.bind(storage),
      ...(presign && { presign }),
      ...heads,
    };
  const decision = await access.decide(principal, mapper.toUri(key), action);
  if (decision === "deny") ensureAllowed(decision);
  if (decision !== "allow") return { ...hidden(storage), ...heads };

  /** Links and file systems without case lead to an object under another name: that counts, too. */
  async function ensureSame(info: ObjectInfo): Promise<void> {
    if (info.key === key) return;
    ensureAllowed(await access.decide(principal, mapper.toUri(info.key), action));
  }

  const describe: Reach["describe"] = async (asked, options) => {
    const info = await storage.describe(asked, options).catch(rethrowAsAbsent);
    await ensureSame(info);
    return info;
  };
  return {
    describe,
    async open(asked, options) {
      const opened = await storage.open(asked, options).catch(async (error: unknown) => {
        // an archived object can be described, a folder cannot
        if (isUnsupported(error)) await describe(asked, options);
        throw error;
      });
      try {
        await ensureSame(opened.info);
      } catch (error) {
        await discardSource(opened, error);
        throw error;
      }
      return opened;
    },
    ...(presign && { presign }),
    ...heads,
  };
}

/** Nothing is found in it; each call makes the same way in storage as one for a missing object. */
function hidden(storage: StorageBackend): Pick<Reach, "describe" | "open"> {
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

/** A folder is no resource, and where all in it is hidden nobody may learn that it is there. */
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

/** What services say of a missing object; some deny it to who may not list. */
const absences: ReadonlySet<string> = new Set(["not_found", "permission_denied"]);

const maxKeyBytes = 1_024;

/** A name that nobody has: random for each process. Some runtimes give no randomness while they load. */
let absentName: string | undefined;

/** A key that is missing in the same folder. */
function absentBeside(key: string): string {
  absentName ??= crypto.randomUUID();
  const folder = key.slice(0, key.lastIndexOf("/") + 1);
  const room = maxKeyBytes - new TextEncoder().encode(folder).length;
  return folder + absentName.slice(0, room);
}
