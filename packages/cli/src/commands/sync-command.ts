import { definedMembers } from "@sluice/core/internal";
import { formatUnlisted, UnlistedTally } from "@sluice/storage/internal";
import {
  type ChoiceOptions,
  type ChosenResource,
  nothingFound,
  resourcesIn,
} from "../download/choose-resources.ts";
import { askToDelete } from "../download/consent.ts";
import { pathFilter } from "../download/name-filter.ts";
import { asFolder, ensureFolder, OutputFolder } from "../download/output-folder.ts";
import { findPresent } from "../download/present-file.ts";
import { createPace } from "../download/rate-limit.ts";
import { type DownloadSettings, saveResource } from "../download/save-resource.ts";
import {
  type ClientConnection,
  connect,
  ensureTrust,
  type ServerCallOptions,
} from "../server-calls/connect.ts";
import { deleteFile, extraFiles } from "../sync/extra-files.ts";
import { inParallel } from "../sync/in-parallel.ts";
import { PathSet } from "../sync/path-set.ts";
import { fault } from "../terminal/failure.ts";
import { note, print, printable, printableJson } from "../terminal/print.ts";
import { createProgressBar, noBar, type ProgressBar } from "../terminal/progress-bar.ts";
import { RefusedFiles, resourceFaults } from "../terminal/refusals.ts";
import { Tally } from "../terminal/tally.ts";

/** Options of `sluice sync`. */
export interface SyncOptions
  extends ServerCallOptions, ChoiceOptions, Omit<DownloadSettings, "output" | "force" | "pace"> {
  readonly signal: AbortSignal;
  /** Only say what would be done. */
  readonly dryRun?: boolean;
  /** Delete files that the server does not list. */
  readonly delete?: boolean;
  /** Do not ask before files are deleted. */
  readonly yes?: boolean;
  /** Resources to get in parallel. */
  readonly jobs: number;
  /** Bytes a second, of all together. */
  readonly limitRate?: number;
  /** Print only the changes, and what went wrong. */
  readonly quiet?: boolean;
}

/**
 * `sluice sync`: makes a folder here the same as a folder of the server. The list is worked off as it comes, so that memory does not
 * grow with it. Files that differ are replaced; with `delete`, those that are not in the list go when all else went well: never
 * after a fault, and none that a sync would not write itself.
 */
export async function syncCommand(
  server: string,
  source: string,
  target: string,
  options: SyncOptions,
): Promise<void> {
  ensureTrust(options.trust);
  if (options.yes && !options.delete)
    throw fault("invalid_argument", "--yes has no effect without --delete", "leave it out");
  await ensureFolder(target, true);
  const connection = await connect(server, options);
  const bar = options.quiet || options.dryRun ? noBar : createProgressBar(process.stderr);
  try {
    const run = new SyncRun(connection, bar, target, options);
    await run.copy(source);
    if (options.delete) await run.deleteOthers();
    run.end();
  } finally {
    bar.clear();
    await connection.client.close();
  }
}

class SyncRun {
  readonly #connection: ClientConnection;
  readonly #bar: ProgressBar;
  readonly #target: string;
  readonly #options: SyncOptions;
  readonly #settings: DownloadSettings;
  readonly #folder: OutputFolder;
  readonly #listedPaths = new PathSet();
  readonly #unlisted = new UnlistedTally();
  readonly #refusals = new RefusedFiles(resourceFaults);
  readonly #tally: Tally;
  #listedFiles = 0;
  #receivedBytes = 0;
  #printing: Promise<void> = Promise.resolve();
  #isReadNoted = false;

  constructor(
    connection: ClientConnection,
    bar: ProgressBar,
    target: string,
    options: SyncOptions,
  ) {
    const { limitRate, signal, dryRun } = options;
    const pace = limitRate === undefined ? undefined : createPace(limitRate, signal);
    this.#connection = connection;
    this.#bar = bar;
    this.#target = target;
    this.#options = options;
    this.#settings = {
      ...options,
      output: asFolder(target),
      force: true,
      ...definedMembers({ pace }),
    };
    this.#folder = new OutputFolder(target);
    this.#tally = new Tally(dryRun ? "to copy" : "copied", "the same");
  }

  /** Gets what differs. Throws what ends the run; faults of single files are told. */
  async copy(source: string): Promise<void> {
    const { include, exclude, jobs, signal } = this.#options;
    const isWanted = pathFilter(include, exclude);
    const resources = resourcesIn(this.#connection, source, isWanted, this.#unlisted);
    this.#bar.start();
    await inParallel(resources, jobs, signal, async (resource, jobSignal) => {
      this.#listedFiles += 1;
      try {
        await this.#copyOne(resource, jobSignal);
      } catch (error) {
        if (!this.#refusals.isOfFile(error)) throw error;
        this.#bar.clear();
        this.#refusals.note(resource.uri, error, true);
      }
    });
    if (this.#listedFiles === 0) throw nothingFound(this.#connection.server, source);
  }

  async #copyOne(resource: ChosenResource, signal: AbortSignal): Promise<void> {
    const { uri, path = "", size = 0 } = resource;
    if (!this.#listedPaths.add(path))
      throw fault("already_exists", "another resource has the same path", "get it alone");
    const present = await findPresent(this.#folder, resource, undefined, signal);
    if (present) return this.#tally.add(false, 0);
    if (this.#options.dryRun) {
      this.#tally.add(true, size);
      return this.#tell("copy", path, { uri, size: resource.size });
    }
    const { outcome, bytes } = await saveResource(
      { ...this.#connection, signal },
      {
        ...resource,
        consent: undefined,
        report: this.#reporter(),
        noteRead: () => this.#noteRead(),
        place: async () => ({ path: await this.#folder.place(path), leave() {} }),
      },
      { ...this.#settings, signal },
    );
    this.#tally.add(outcome === "saved", bytes);
    if (outcome === "saved") await this.#tell("copy", path, { uri, size: bytes });
  }

  /**
   * Deletes what is in the folder and not in the list, after a question with its number. Does nothing after a fault, or if the server
   * has files that it cannot list: they may be the same.
   */
  async deleteOthers(): Promise<void> {
    const { include, exclude, dryRun, yes, signal } = this.#options;
    const counts = this.#unlisted.take();
    const isWhole = !counts?.unreadable && !counts?.archived;
    if (this.#refusals.count > 0 || !isWhole) {
      const why = isWhole ? "some files were refused" : formatUnlisted(counts ?? {});
      return note(`nothing was deleted: ${why}`);
    }
    const isWanted = pathFilter(include, exclude);
    const isExtra = (path: string): boolean => isWanted(path) && !this.#listedPaths.has(path);
    const extra = { root: this.#target, isExtra, signal };
    this.#bar.clear();
    let count = 0;
    for await (const path of extraFiles(extra)) {
      count += 1;
      if (dryRun) await this.#tell("delete", path);
    }
    if (dryRun || count === 0) return;
    if (!yes) await askToDelete(count, this.#target, signal);
    for await (const path of extraFiles(extra)) {
      await deleteFile(this.#target, path);
      await this.#tell("delete", path);
    }
  }

  /** Sums up, and throws if a file was refused. */
  end(): void {
    const { dryRun, json, quiet } = this.#options;
    this.#bar.clear();
    if (!json && !quiet) note(this.#tally.summary(this.#refusals.count));
    if (dryRun && !quiet) note("nothing was changed: --dry-run");
    this.#refusals.ensureNone(this.#listedFiles);
  }

  /** One line of standard output for a change, in whole even while several are told. */
  #tell(action: "copy" | "delete", path: string, facts: object = {}): Promise<void> {
    const line = this.#options.json
      ? printableJson({ action, path, ...facts })
      : `${action} ${printable(path)}`;
    this.#printing = this.#write(line, this.#printing);
    return this.#printing;
  }

  async #write(line: string, before: Promise<void>): Promise<void> {
    await before;
    this.#bar.clear();
    await print(line);
  }

  #reporter(): (bytes: number) => void {
    let reportedBytes = 0;
    return (bytes) => {
      this.#receivedBytes += bytes - reportedBytes;
      reportedBytes = bytes;
      this.#bar.update(this.#receivedBytes);
    };
  }

  #noteRead(): void {
    if (this.#isReadNoted || this.#options.quiet) return;
    this.#isReadNoted = true;
    const { server } = this.#connection;
    note(`${server} does not stream these resources: each is read in one message (resources/read)`);
  }
}
