import { lstatSync } from "node:fs";
import { pathKey, scaleOf } from "@sluice/client/internal";
import type { Consent, StreamFacts } from "@sluice/client";
import { SluiceError } from "@sluice/core";
import {
  chooseBelow,
  chooseResources,
  type ChoiceOptions,
  type ChosenResource,
  ensureNamed,
} from "../download/choose-resources.ts";
import { type ExpectedDigest, readChecksums } from "../download/checksum-file.ts";
import { createBudget, createConsent } from "../download/consent.ts";
import { asFolder, ensureFolder, OutputFolder, pathIn } from "../download/output-folder.ts";
import { findPresent } from "../download/present-file.ts";
import { createPace } from "../download/rate-limit.ts";
import {
  openStream,
  presentReport,
  saveResource,
  type SaveReport,
  type DownloadSettings,
} from "../download/save-resource.ts";
import { type FileOfTree, saveFilesTogether } from "../download/save-together.ts";
import { writeResources } from "../download/write-resources.ts";
import { runInOrder, SaveOrder } from "../save/save-order.ts";
import {
  connect,
  ensureTrust,
  type ClientConnection,
  type ServerCallOptions,
} from "../server-calls/connect.ts";
import { Advice, fault } from "../terminal/failure.ts";
import { note, print, printable } from "../terminal/print.ts";
import {
  createProgressBar,
  noBar,
  shareProgress,
  type ProgressBar,
} from "../terminal/progress-bar.ts";
import { type fileFaults, RefusedFiles, resourceFaults } from "../terminal/refusals.ts";
import { Tally } from "../terminal/tally.ts";

/** Options of `sluice get`. */
export interface GetOptions extends ServerCallOptions, DownloadSettings, ChoiceOptions {
  readonly signal: AbortSignal;
  /** Do not ask before a large download. */
  readonly yes?: boolean;
  /** Resources to get in parallel. */
  readonly jobs: number;
  /** File of the digests that the files must have. */
  readonly checksum?: string;
  /** Bytes a second, of all together. */
  readonly limitRate?: number;
  /** Say nothing of what went well but the paths. */
  readonly quiet?: boolean;
}

/**
 * `sluice get`: saves resources, several at a time, and says on standard output where, in their order. Folders and globs
 * keep their tree below the output folder. A file that is there and the same is not fetched; one that is refused does not end
 * the rest, and the first refusal is the outcome of the run. An interrupted run is resumed by the same command. What a server
 * does not stream comes by `resources/read`, with a note on standard error.
 */
export async function getCommand(
  server: string,
  names: readonly string[],
  options: GetOptions,
): Promise<void> {
  const { output, limitRate, checksum, signal, trust } = options;
  ensureTrust(trust);
  ensureNamed(names, options);
  const pace = limitRate === undefined ? undefined : createPace(limitRate, signal);
  const digestOf = checksum === undefined ? undefined : await readChecksums(checksum);
  if (output === "-" && digestOf)
    throw fault("invalid_argument", "--checksum is for files", "pass -o with another output");
  const connection = await connect(server, options);
  const bar = options.quiet || output === "-" ? noBar : createProgressBar(process.stderr);
  try {
    bar.start();
    const chosen = await chooseResources(connection, names, options);
    if (output === "-") return await writeResources(connection, chosen, { ...options, pace });
    const run = new GetRun(connection, bar, { ...options, pace }, digestOf);
    await run.get(chosen).catch(async (error: unknown) => {
      const [only, another] = chosen;
      if (!isNotOfResource(error) || !only || another || only.path !== undefined) throw error;
      await run.get(await chooseBelow(connection, only.uri, options, error));
    });
  } finally {
    bar.clear();
    await connection.client.close();
  }
}

/** True for what servers say of the URI of a folder. */
function isNotOfResource(error: unknown): boolean {
  const { cause } = error instanceof Advice ? error : { cause: error };
  return SluiceError.is(cause) && folderCodes.has(cause.code);
}

const folderCodes: typeof fileFaults = new Set([
  "invalid_argument",
  "not_found",
  "protocol",
  "unsupported",
]);

class GetRun {
  readonly #connection: ClientConnection;
  readonly #bar: ProgressBar;
  readonly #options: GetOptions;
  readonly #digestOf: ExpectedDigest | undefined;
  #isReadNoted = false;

  constructor(
    connection: ClientConnection,
    bar: ProgressBar,
    options: GetOptions,
    digestOf: ExpectedDigest | undefined,
  ) {
    this.#digestOf = digestOf;
    this.#connection = connection;
    this.#bar = bar;
    this.#options = options;
  }

  /** Saves resources. Throws the fault of the only one, or that some were refused. */
  async get(chosen: readonly ChosenResource[]): Promise<void> {
    const { output, jobs, signal, json, quiet } = this.#options;
    const isTree = chosen.some(({ path }) => path !== undefined);
    const isBatch = isTree || chosen.length > 1;
    if (isBatch) await ensureFolder(output, isTree);
    // a missing one too: the first of several is not to take its name
    const outputTarget = isBatch ? asFolder(output) : output;
    const present = isTree ? await this.#findPresent(chosen) : [];
    const isPresent = (index: number): boolean => present[index] !== undefined;
    const consent = await this.#consentFor(
      chosen.filter((_, index) => !isPresent(index)),
      isBatch,
    );
    const order = new SaveOrder();
    const folder = new OutputFolder(output);
    const begin = shareProgress(this.#bar, chosen.length);
    const progress = chosen.map(({ size }, index) => begin(isPresent(index) ? 0 : size));
    const refusals = new RefusedFiles(resourceFaults);
    const paths = new PathsTaken();
    const tally = new Tally("saved", "there already");
    const together = saveFilesTogether(
      this.#connection,
      isTree ? await this.#smallFiles(chosen, isPresent, paths, folder) : new Map(),
      { ...this.#options, consent },
    );

    const save = async (index: number, jobSignal: AbortSignal): Promise<SaveReport> => {
      const resource = chosen[index]!;
      const { path, uri } = resource;
      if (path !== undefined) paths.take(path, uri);
      if (isPresent(index)) return present[index]!;
      const report = await together?.reportOf(index);
      if (report) {
        progress[index]!.report(report.bytes, report.bytes);
        return report;
      }
      return saveResource(
        { ...this.#connection, signal: jobSignal },
        {
          ...resource,
          sha256: this.#digestOf?.(resource),
          consent,
          report: progress[index]!.report,
          noteRead: () => this.#noteRead(uri, isTree),
          place: (name) => {
            this.#bar.start();
            return order.enter(index, () =>
              path === undefined ? pathIn(outputTarget, name) : folder.place(path),
            );
          },
        },
        { ...this.#options, output: outputTarget, signal: jobSignal },
      );
    };

    try {
      await runInOrder<SaveReport | Refusal>({
        count: chosen.length,
        jobs,
        signal: together ? AbortSignal.any([signal, together.signal]) : signal,
        run: async (index, jobSignal) => {
          try {
            return await save(index, jobSignal);
          } catch (error) {
            if (isBatch && refusals.isOfFile(error)) return { refusal: error };
            throw error;
          } finally {
            order.pass(index);
            progress[index]!.end();
          }
        },
        tell: async (result, index) => {
          this.#bar.clear();
          if ("refusal" in result) return refusals.note(chosen[index]!.uri, result.refusal, true);
          tally.add(result.outcome === "saved", result.bytes);
          if (!isTree && !quiet) result.notes.forEach(note);
          await print(result.line);
        },
      });
    } finally {
      await together?.close();
      this.#bar.clear();
      if (isBatch && !json && !quiet) note(tally.summary(refusals.count));
    }
    refusals.ensureNone(chosen.length);
  }

  /**
   * Files of a tree whose size the list has, each with a path of its own where nothing is; the others are got by
   * themselves.
   */
  async #smallFiles(
    chosen: readonly ChosenResource[],
    isPresent: (index: number) => boolean,
    paths: PathsTaken,
    folder: OutputFolder,
  ): Promise<Map<number, FileOfTree>> {
    const files = new Map<number, FileOfTree>();
    for (const [index, resource] of chosen.entries()) {
      const { uri, path, size } = resource;
      const sha256 = this.#expectedOf(resource);
      if (path === undefined || size === undefined || sha256 === "unknown") continue;
      if (isPresent(index) || !paths.isFree(path, uri)) continue;
      const place = await folder.find(path);
      if (place !== undefined && lstatSync(place, { throwIfNoEntry: false })) continue;
      files.set(index, { uri, size, sha256, place: () => folder.place(path) });
    }
    return files;
  }

  /** Reports for the files of a tree that are there as the list has them; these need no call. */
  async #findPresent(
    chosen: readonly ChosenResource[],
  ): Promise<readonly (SaveReport | undefined)[]> {
    const { output, signal } = this.#options;
    const folder = new OutputFolder(output);
    const reports: (SaveReport | undefined)[] = [];
    await runInOrder({
      count: chosen.length,
      jobs: 16,
      signal,
      run: async (index, jobSignal) => {
        const resource = chosen[index]!;
        const expected = this.#expectedOf(resource);
        if (expected === "unknown") return undefined;
        const present = await findPresent(folder, resource, expected, jobSignal).catch(unlessOfOne);
        return present && presentReport(resource.uri, present.place, present.bytes, this.#options);
      },
      tell: async (report) => void reports.push(report),
    });
    return reports;
  }

  /** The digest that a resource must have, if any; one of an unknown digest is refused when it is its turn. */
  #expectedOf(resource: ChosenResource): string | undefined {
    try {
      return this.#digestOf?.(resource);
    } catch {
      return "unknown";
    }
  }

  /** The consent for each resource, after one question for several. */
  async #consentFor(
    resources: readonly ChosenResource[],
    isBatch: boolean,
  ): Promise<Consent | undefined> {
    const question = createConsent(this.#options);
    // nothing is drawn over a question
    const consent: typeof question = question && ((scale) => (this.#bar.clear(), question(scale)));
    if (!isBatch || !consent || resources.length === 0) return consent;
    const { output } = this.#options;
    const scale = scaleOf(await this.#factsOf(resources), output);
    await consent(scale);
    return createBudget(scale);
  }

  /** Sizes and origins of resources; those that the list has no size of are asked for. */
  async #factsOf(resources: readonly ChosenResource[]) {
    const { jobs, signal, output } = this.#options;
    const { server } = this.#connection;
    const facts: Pick<StreamFacts, "size" | "origin">[] = [];
    await runInOrder({
      count: resources.length,
      jobs,
      signal,
      run: async (index, jobSignal) => {
        const { uri, size } = resources[index]!;
        if (size !== undefined) return { size, origin: new URL(server).origin };
        const settings = { ...this.#options, signal: jobSignal };
        // what comes in one message is bounded
        const resource = { uri };
        const stream = await openStream(
          this.#connection,
          resource,
          output,
          settings,
          undefined,
        ).catch(unlessOfOne);
        stream?.cancel();
        return stream;
      },
      tell: async (stream) => void (stream && facts.push(stream)),
    });
    return facts;
  }

  #noteRead(uri: string, isTree: boolean): void {
    const { server } = this.#connection;
    if (this.#options.quiet || (isTree && this.#isReadNoted)) return;
    this.#isReadNoted = true;
    const what = isTree ? "these resources: each is" : `${printable(uri)}:`;
    note(`${server} does not stream ${what} read in one message (resources/read)`);
  }
}

/** What is refused is refused again when it is its turn. */
function unlessOfOne(error: unknown): undefined {
  if (!new RefusedFiles(resourceFaults).isOfFile(error)) throw error;
}

interface Refusal {
  readonly refusal: unknown;
}

/** Paths of a tree, each for one resource. */
class PathsTaken {
  readonly #uris = new Map<string, string>();

  /** Takes a path, unless another resource has it. */
  isFree(path: string, uri: string): boolean {
    return this.#ownerOf(path, uri) === uri;
  }

  take(path: string, uri: string): void {
    const other = this.#ownerOf(path, uri);
    if (other !== uri)
      throw fault("already_exists", `it has the same path as ${printable(other)}`, "get it alone");
  }

  #ownerOf(path: string, uri: string): string {
    // where case does not count, one would replace the other
    const key = pathKey(path);
    const owner = this.#uris.get(key) ?? uri;
    this.#uris.set(key, owner);
    return owner;
  }
}
