import { type Principal, SluiceError } from "@sluice/core";
import { abortable } from "@sluice/core/internal";
import { createUriMapper, type OpenedObject } from "@sluice/storage";
import type { ArchiveFile } from "../entries/read-entries.ts";
import { archiveOf, type ArchiveFormat, ensureFormat } from "../formats/archive-of.ts";

/** The calls of an archive to a server: the files below a folder, for one caller. */
export interface ArchiveHost {
  /**
   * The files below a URI that ends with `/`, in listing order, without those that the principal may not list. Rejects
   * with `not_found` for a folder of no storage.
   */
  walk(request: ArchiveWalk): AsyncIterable<WalkedFile>;
}

/** Which files. */
export interface ArchiveWalk {
  readonly uri: string;
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

/** A file that the principal may list. */
export interface WalkedFile {
  /** Its key without the folder that was walked. */
  readonly path: string;
  /** Opens it; `undefined` if it is gone, or the principal may not stream it. */
  readonly open: (options: { readonly signal?: AbortSignal }) => Promise<OpenedObject | undefined>;
}

/** Options of {@link archiveProvider}. */
export interface ArchiveOptions {
  /** URI of the files, ending with `/`: a base URI of the server, or a folder below one. */
  readonly of: string;
  readonly format: ArchiveFormat;
  /** Maximum number of files of one archive; one more ends it with `too_large`. Default: 100,000. */
  readonly maxFiles?: number;
}

/** The members that the provider uses of a `ProvideRequest` of the server. */
export interface ArchiveRequest {
  /** `folder` names the folder below `of`; without it the archive has all of `of`. */
  readonly variables: Readonly<Record<string, string>>;
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

/** A `Provider` of the server. */
export interface ArchiveProvider {
  readonly mimeType: string;
  open(request: ArchiveRequest): Promise<ReadableStream<Uint8Array>>;
}

const mimeTypes: Readonly<Record<ArchiveFormat, string>> = {
  zip: "application/zip",
  tar: "application/x-tar",
};

/**
 * A provider of folders as archives: for a template with the variable `folder`, such as
 * `archives://demo/{+folder}.zip`, or for one URI. Each caller gets the files that it may list and stream. A folder in
 * which it sees none is `not_found`. Nothing is known ahead, so that a broken download starts again.
 */
export function archiveProvider(
  host: ArchiveHost,
  { of, format, maxFiles }: ArchiveOptions,
): ArchiveProvider {
  ensureFormat(format);
  const mapper = createUriMapper(of);
  return {
    mimeType: mimeTypes[format],
    async open({ variables, principal, signal }) {
      const { folder } = variables;
      // with another name each folder would be all of them
      const wrong = Object.keys(variables).find((name) => name !== "folder");
      if (wrong !== undefined)
        throw new TypeError(`archive: call the variable of the template folder; it is ${wrong}`);
      const uri = folder === undefined ? of : `${mapper.toUri(folder)}/`;
      const listing = host.walk({ uri, principal, signal })[Symbol.asyncIterator]();
      // asked before the first byte: what is wrong here can still be said
      const first = await abortable(listing.next(), signal).catch((error: unknown) => {
        listing.return?.().catch(() => {});
        throw error;
      });
      if (first.done)
        throw new SluiceError("not_found", "archive: there are no files in this folder");
      return archiveOf(filesOf(first.value, listing), { format, maxFiles, signal });
    },
  };
}

/** The first file and those that follow. Ending it ends the listing, also before the first file was taken. */
function filesOf(
  first: WalkedFile,
  listing: AsyncIterator<WalkedFile, unknown>,
): AsyncIterable<ArchiveFile> {
  let ahead: IteratorResult<WalkedFile, unknown> | undefined = { value: first };
  const iterator: AsyncIterator<ArchiveFile> = {
    async next() {
      const step = ahead ?? (await listing.next());
      ahead = undefined;
      if (step.done) return { done: true, value: undefined };
      const { path, open } = step.value;
      return { done: false, value: { key: path, open } };
    },
    async return() {
      await listing.return?.();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
