import type { Consent } from "@sluice/client";
import { boundsFor, saveTogether, scaleOf, settingsOf } from "@sluice/client/internal";
import { defer, definedMembers } from "@sluice/core/internal";
import type { ClientConnection } from "../server-calls/connect.ts";
import { Advice, goOnAdvice, isResumableFault } from "../terminal/failure.ts";
import { type DownloadSettings, savedReport, type SaveReport } from "./save-resource.ts";

/** A small file of a tree that may come together with others. */
export interface FileOfTree {
  readonly uri: string;
  readonly size: number;
  /** SHA-256 in hex that it must have. */
  readonly sha256?: string | undefined;
  /** Makes its folder, and gives its path. */
  readonly place: () => Promise<string>;
}

/** Files that come together, while others are got by themselves. */
export interface SavingTogether {
  /** Aborts with the fault after which none of these files comes. */
  readonly signal: AbortSignal;
  /** The report of a file once it is saved; `undefined` for one that has to be got by itself. */
  readonly reportOf: (index: number) => Promise<SaveReport | undefined>;
  /** Ends it. Resolves when nothing is written any more. */
  readonly close: () => Promise<void>;
}

/**
 * Begins to save small files, many with each response. Gives `undefined` for a server that does not send them so. `files` has
 * them by their index in the run.
 */
export function saveFilesTogether(
  { client }: ClientConnection,
  files: ReadonlyMap<number, FileOfTree>,
  settings: DownloadSettings & { readonly consent: Consent | undefined },
): SavingTogether | undefined {
  const bounds = boundsFor(client);
  if (!bounds || files.size < 2) return undefined;
  const { force = false, maxSize, pace, consent } = settings;
  const stop = new AbortController();
  const signal = AbortSignal.any([settings.signal, stop.signal]);
  const indexes = [...files.keys()];
  const reports = new Map(indexes.map((index) => [index, defer<SaveReport | undefined>()]));
  // counted with those that come by themselves against what the user agreed to
  for (const { size } of files.values()) void consent?.(scaleOf([{ size }]));
  const wantedFiles = [...files.values()].map((file) => ({
    ...file,
    // the library tells the disk's faults apart; what is refused here is refused with advice at its turn
    place: () => file.place().catch((error: unknown): never => throwCause(error)),
  }));
  const saving = saveTogether(client, wantedFiles, {
    settings: settingsOf(definedMembers({ signal, maxStreamBytes: maxSize })),
    bounds,
    overwrite: force,
    ...definedMembers({ pace }),
    onEnd(at, { saved }) {
      const index = indexes[at]!;
      const { uri } = files.get(index)!;
      const report = saved && savedReport({ uri, mode: "direct", ...saved }, 0, settings);
      reports.get(index)!.resolve(report);
    },
  }).catch((error: unknown) => {
    const advice = isResumableFault(error) ? goOnAdvice(0, "kept") : undefined;
    stop.abort(settings.signal.aborted ? error : new Advice(error, advice));
    for (const { resolve } of reports.values()) resolve(undefined);
  });
  return {
    signal: stop.signal,
    reportOf: async (index) => {
      const report = await reports.get(index)?.promise;
      stop.signal.throwIfAborted();
      return report;
    },
    async close() {
      stop.abort();
      await saving;
    },
  };
}

function throwCause(error: unknown): never {
  throw error instanceof Advice ? error.cause : error;
}
