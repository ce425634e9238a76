import { definedMembers } from "@sluice/core";
import type { ObjectInfo, StorageBackend } from "@sluice/storage";

/** What lies directly in a folder, as far as one page goes. */
export interface FolderPage {
  /** Names of folders, in the order of names. */
  readonly folders: readonly string[];
  /** Files, in the order of names. */
  readonly files: readonly ObjectInfo[];
  /** Where the next page begins; absent at the end. */
  readonly cursor?: string;
}

/** Which page of which folder. */
export interface FolderRequest {
  /** "" for the top, else it ends with a slash. */
  readonly folder: string;
  readonly cursor?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Most entries of a page. */
const mostEntries = 500;
/** Most objects that are looked at for a page; those of folders below count, too. */
const mostObjects = 20_000;
const listLimit = 1_000;

/**
 * Reads one page of a folder out of the flat list of its storage. It ends early where folders below have many objects: the next
 * page goes on from there.
 */
export async function readFolder(
  storage: Pick<StorageBackend, "list">,
  { folder, cursor: from, signal }: FolderRequest,
): Promise<FolderPage> {
  const folders = new Set<string>();
  const files: ObjectInfo[] = [];
  let cursor = from;
  let looked = 0;
  do {
    const page = await storage.list(
      definedMembers({ prefix: folder, limit: listLimit, cursor, signal }),
    );
    for (const info of page.objects) {
      const rest = info.key.slice(folder.length);
      const slash = rest.indexOf("/");
      if (slash < 0) files.push(info);
      else folders.add(rest.slice(0, slash));
    }
    looked += Math.max(page.objects.length, 1);
    ({ cursor } = page);
  } while (
    cursor !== undefined &&
    looked < mostObjects &&
    folders.size + files.length < mostEntries
  );
  return {
    folders: [...folders].toSorted(byName),
    files: files.toSorted((one, other) => byName(one.key, other.key)),
    ...definedMembers({ cursor }),
  };
}

const byName = new Intl.Collator("en", { numeric: true }).compare;
