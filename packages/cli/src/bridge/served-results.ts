import {
  createMemoryHold,
  createStorageHold,
  openResultLinks,
  type ResultHold,
  type ResultLinks,
} from "@sluice/bridge";
import type { Principal } from "@sluice/core";
import { createSluice, type Caller, type Sluice } from "@sluice/server";
import type { AuditFile, KeyFile } from "@sluice/server/node";
import { createMemoryStores } from "@sluice/state";
import type { StorageBackend } from "@sluice/storage";
import { createHandler, type SluiceHandler } from "@sluice/transport-http";
import { serveLimits, serveState } from "../serve/serve-limits.ts";
import { auditOf } from "../serve/serve-trail.ts";
import { note, printable } from "../terminal/print.ts";
import { prepareFolder } from "../storages/prepare-folder.ts";
import { lookAtStorage, refuseStorage } from "../storages/look-at-storage.ts";
import { openStorage } from "../storages/open-storage.ts";
import { parseStorageUrl, type StorageUrl } from "../storages/storage-url.ts";

/** Options of {@link openServedResults}. */
export interface ServedResultsOptions {
  /** URL of the endpoint, as hosts and their users see it: links lie below it. */
  readonly endpoint: string;
  /** Every request of a host carries a checked token: links act for its holder, else for the anonymous. */
  readonly isGuarded: boolean;
  /** Storage URL of `--results-to`. Default: memory. */
  readonly resultsTo?: string | undefined;
  /** Bytes of `--max-held`. Default: 256 MiB in memory, 10 GiB in a storage. */
  readonly maxHeld?: number | undefined;
  /** Bytes of `--inline`. Default: 64 KiB. */
  readonly inline?: number | undefined;
  /** Keys that seal links. Default: keys that end with this process. */
  readonly keys?: KeyFile | undefined;
  /** Gets a record for each link and each download. Default: the log alone. */
  readonly trail?: AuditFile | undefined;
  /** Ends the look at the storage. */
  readonly signal: AbortSignal;
}

/** Large results of the sessions of one bridge, and the handler of their links. */
export interface ServedResults {
  readonly sluice: Sluice;
  /** Answers `<endpoint>/d/…`, and 404 for the rest. Its `router.routes` go behind another router. */
  readonly handler: SluiceHandler;
  /** For the session of this caller. */
  linksFor(caller: Caller): Promise<ResultLinks>;
  /** Removes what is held: its links end with this process. */
  close(): Promise<void>;
}

/**
 * Opens what `sluice bridge --http` does with large results: they are held in memory or in the storage of `--results-to`,
 * and leave as links. Throws faults that say what is wrong with the storage.
 */
export async function openServedResults(options: ServedResultsOptions): Promise<ServedResults> {
  const { endpoint, isGuarded, resultsTo, maxHeld, inline, keys, trail, signal } = options;
  const storage = resultsTo === undefined ? undefined : await openResultStorage(resultsTo, signal);
  const hold = holdOver(storage, maxHeld);
  const holder: Principal = { issuer: "sluice bridge", subject: "token", clientId: "" };
  const sluice = createSluice({
    storage: hold.storage,
    baseUri: hold.baseUri,
    endpoint,
    keys: keys?.keys ?? "ephemeral",
    stores: createMemoryStores(serveState),
    // about the ephemeral keys: links end with their results
    onWarning() {},
    principal: () => (isGuarded ? holder : undefined),
    anonymous: !isGuarded,
    links: {},
    audit: auditOf(trail),
    limits: serveLimits,
  });
  return {
    sluice,
    handler: createHandler({ sluice }),
    linksFor: (caller) =>
      openResultLinks({
        hold,
        link: ({ uri }) => sluice.link(uri, { caller }),
        inlineBytes: inline,
        onError: noteFault,
      }),
    async close() {
      await hold.close();
      await sluice.close();
      await storage?.close?.();
    },
  };
}

function holdOver(storage: StorageBackend | undefined, maxBytes: number | undefined): ResultHold {
  return storage
    ? createStorageHold({ storage, maxBytes, onError: noteFault })
    : createMemoryHold({ maxBytes });
}

function noteFault(error: unknown): void {
  note(`sluice: ${printable(error instanceof Error ? error.message : String(error))}`);
}

/**
 * Opens the storage of `--results-to` for writing, and looks at it. A missing folder is created, only for this user.
 * Throws faults that say what is wrong.
 */
async function openResultStorage(source: string, signal: AbortSignal): Promise<StorageBackend> {
  const place = placeOf(source);
  if (place.kind === "file") await prepareFolder(place.root, 0o700, "--results-to");
  const backend = await openStorage(source, process.env, { writable: true }).catch(refuseStorage);
  try {
    await lookAtStorage({ source, backend, signal });
    return backend;
  } catch (error) {
    await backend.close?.();
    throw error;
  }
}

function placeOf(source: string): StorageUrl {
  try {
    return parseStorageUrl(source);
  } catch (error) {
    return refuseStorage(error);
  }
}
