import { SluiceError, type Principal } from "@sluice/core";
import type { CallOptions, ObjectInfo, OpenedObject } from "@sluice/storage";
import { readAloneFault } from "../storage/authorized-storage.ts";
import type { Mount } from "../storage/mount.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { visiblePage } from "./visible-page.ts";

/** Which objects to walk over. */
export interface WalkRequest {
  /** A base URI, or a folder below one: it ends in `/`. */
  readonly uri: string;
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

/** An object that a principal may list. */
export interface WalkedObject {
  /** Its key without the folder that is walked. */
  readonly path: string;
  /** As the list told it. */
  readonly info: ObjectInfo;
  /**
   * Opens it; `undefined` if it is gone since it was listed, the principal may not stream it, or its author has it
   * not streamed. Rejects with what a client may learn.
   */
  open(options?: CallOptions): Promise<OpenedObject | undefined>;
}

/** Objects of the first page, for which the reader waits, and of later ones. */
const pageSizes = { first: 100, later: 1_000 };

/**
 * Goes over the objects of one storage whose keys begin with a folder, in the order of its list, without those that the principal
 * may not list. Looks at a page when the one before is used up. Throws `not_found` for a folder of no storage.
 */
export async function* walkFolder(
  mounts: Mounts,
  { uri, principal, signal }: WalkRequest,
): AsyncGenerator<WalkedObject> {
  const { mount, prefix } = folderIn(mounts, uri, principal);
  let cursor: string | undefined;
  let limit = pageSizes.first;
  do {
    const page = await visiblePage(mount, { prefix, principal, cursor, limit, signal });
    limit = pageSizes.later;
    for (const info of page.objects)
      yield {
        path: info.key.slice(prefix.length),
        info,
        open: (options) => openFor(mount, principal, info.key, options),
      };
    ({ cursor } = page);
  } while (cursor !== undefined);
}

/** The storage of a folder, and what the keys in it begin with. Throws `not_found` for a folder of no storage. */
function folderIn(
  { storages }: Mounts,
  uri: string,
  principal: Principal | undefined,
): { readonly mount: Mount; readonly prefix: string } {
  const mount = storages.find(({ mapper }) => uri.startsWith(mapper.baseUri));
  if (!mount || !isThereFor(mount, principal))
    throw new SluiceError("not_found", "sluice: the folder is not below a base URI");
  return { mount, prefix: prefixOf(mount, uri) };
}

/** What the keys in a folder begin with. Throws `invalid_argument` for a URI that does not name one. */
export function prefixOf({ mapper }: Mount, uri: string): string {
  if (uri === mapper.baseUri) return "";
  if (!uri.endsWith("/"))
    throw new SluiceError("invalid_argument", "sluice: the URI of a folder ends in /");
  return `${mapper.toKey(uri.slice(0, -1))}/`;
}

async function openFor(
  { storageAccess }: Mount,
  principal: Principal | undefined,
  key: string,
  options: CallOptions = {},
): Promise<OpenedObject | undefined> {
  try {
    const storage = await storageAccess.authorize({ principal, key, action: "stream" });
    return await storage.open(key, options);
  } catch (error) {
    if (error === readAloneFault) return undefined;
    if (SluiceError.is(error) && withoutIt.has(error.code)) return undefined;
    throw error;
  }
}

const withoutIt: ReadonlySet<string> = new Set(["not_found", "permission_denied"]);
