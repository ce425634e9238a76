import type { Principal } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ObjectInfo, UnlistedCounts } from "@sluice/storage";
import { UnlistedTally } from "@sluice/storage/internal";
import type { Mount } from "../storage/mount.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { visiblePage, type VisiblePage } from "./visible-page.ts";

/** Where to look for files. */
export interface FilePlace {
  readonly mount: Mount;
  /** Only keys that begin with it. Default: all. */
  readonly prefix?: string;
}

/** A file that a caller may list. */
export interface VisibleFile {
  readonly mount: Mount;
  readonly info: ObjectInfo;
  readonly uri: string;
  /** The list does not tell its type. */
  readonly isUntyped: boolean;
}

/** Files that were found together, in the order of the storages. */
export interface FileChunk {
  readonly files: readonly VisibleFile[];
  readonly withheld: number;
  /** Entries of the storages that are in no list. */
  readonly unlisted: UnlistedCounts | undefined;
  readonly isLast: boolean;
}

/** Objects that are looked at for one chunk. */
const chunkSize = 10_000;
const pageSize = 1_000;
/** What a page counts at least: asking takes time, too. */
const minCounted = 200;

/** The places of all mounts that a principal has. */
export function placesOf(
  { all }: Pick<Mounts, "all">,
  principal: Principal | undefined,
): FilePlace[] {
  return all.filter((mount) => isThereFor(mount, principal)).map((mount) => ({ mount }));
}

/**
 * Goes over the files that a principal may list, in chunks of at most 10,000. Rejects with the fault of a storage, once what
 * was found before it is given.
 */
export async function* visibleFiles(
  mounts: Mounts,
  {
    principal,
    signal,
    places,
  }: {
    readonly principal: Principal | undefined;
    readonly signal: AbortSignal;
    readonly places: readonly FilePlace[];
  },
): AsyncGenerator<FileChunk> {
  let files: VisibleFile[] = [];
  let withheld = 0;
  let looked = 0;
  const tally = new UnlistedTally();
  const take = (isLast: boolean): FileChunk => {
    const chunk = { files, withheld, unlisted: tally.take(), isLast };
    [files, withheld, looked] = [[], 0, 0];
    return chunk;
  };
  for (const { mount, prefix } of places) {
    let cursor: string | undefined;
    do {
      if (looked >= chunkSize) yield take(false);
      const limit = Math.min(pageSize, chunkSize - looked);
      const look = (): Promise<VisiblePage> =>
        visiblePage(mount, { principal, signal, cursor, limit, ...definedMembers({ prefix }) });
      let page: VisiblePage;
      try {
        page = await look();
      } catch (error) {
        if (files.length === 0 || signal.aborted) throw error;
        yield take(false);
        page = await look();
      }
      for (const info of page.objects) {
        const uri = mount.mapper.toUri(info.key);
        // an object whose URI a provider has cannot be read by it
        if (mounts.mountOf(uri) !== mount) continue;
        const isUntyped = page.untyped === true && info.contentType === undefined;
        files.push({ mount, info, uri, isUntyped });
      }
      withheld += page.withheld;
      tally.addAll(page.unlisted);
      looked += Math.max(minCounted, page.objects.length + page.withheld);
      ({ cursor } = page);
    } while (cursor !== undefined);
  }
  yield take(true);
}
