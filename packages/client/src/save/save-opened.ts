import { join, basename, dirname } from "node:path";
import { constants, type Stats } from "node:fs";
import { rename, unlink } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import {
  abortable,
  fileNameFromUri,
  type KeptBytes,
  parseEntityTag,
  parseHttpDate,
} from "@sluice/core/internal";
import { openHandle } from "@sluice/core/internal/node";
import type { CheckedAnswer } from "../download/check-answer.ts";
import { fetchShares, fetchWhole, type Filling, minShareBytes } from "./fetch-into.ts";
import { diskOrigin, isFullDisk } from "./disk-error.ts";
import { createPartFile, type PartFile, partFileOf } from "./part-file.ts";
import {
  isMine,
  type KeptVersion,
  mayRun,
  readRecord,
  recordName,
  ResumeKeeper,
  type ResumeRecord,
  sweepOrphans,
  thisProcess,
  writeRecord,
} from "./resume-record.ts";
import { ensureSpace, permissionsOf, placeOf, publishFile, resolveTarget } from "./save-target.ts";
import type { SavedFile, SaveOptions } from "../download/save-options.ts";
import { ensureDigest, type OpenedResource } from "../download/open-resource.ts";
import { randomPartName } from "./part-name.ts";

/** Options of a save that a program of ours makes. */
export interface OwnSaveOptions extends SaveOptions {
  /** SHA-256 in hex that the file must have, whatever the server promises. Default: none. */
  readonly sha256?: string;
  /** Called with the bytes of each chunk; the next one waits for it. Slows the transfer down. */
  readonly pace?: (bytes: number) => Promise<void>;
}

/** Saves an opened resource; see `ResourceStream.saveTo`. `reopen` requests it anew if ranges failed. */
export async function saveOpened(
  opened: OpenedResource,
  reopen: () => Promise<OpenedResource>,
  path: string,
  options: OwnSaveOptions,
): Promise<SavedFile> {
  const { facts } = opened;
  const { overwrite = false, resume = false } = options;
  const version = versionOf(facts.uri, opened.download.latest());
  try {
    const target = await resolveTarget(path, options.name ?? facts.name, overwrite);
    const { directory } = target;
    await opened.admit(path);
    await sweepOrphans(directory, Date.now());
    const isSmall = facts.size !== undefined && facts.size <= minShareBytes;
    // a new file gets the same without a look at another one before
    const permissions = isSmall && !overwrite ? undefined : await permissionsOf(target);
    const recordPath = join(directory, recordName(facts.uri, target.name));
    const keptPart =
      resume && version && !isSmall ? await openKept(recordPath, version) : undefined;
    const mode = permissions === undefined ? newFileMode : undefined;
    return await fill(
      keptPart ?? (await createPartFile(directory, randomPartName(), mode)),
      opened,
      reopen,
      options,
      keptPart && recordPath,
      async (part) => {
        if (permissions !== undefined) await part.allow(permissions);
        return publishFile(part.path, target);
      },
    );
  } catch (error) {
    opened.cancel(error);
    throw error;
  }
}

/** What the umask or the folder's default ACL takes from. */
const newFileMode = 0o666;

async function fill(
  part: PartFile,
  opened: OpenedResource,
  reopen: () => Promise<OpenedResource>,
  options: OwnSaveOptions,
  recordPath: string | undefined,
  publish: (part: PartFile) => Promise<string>,
): Promise<SavedFile> {
  const { facts, settings, download } = opened;
  const resumedBytes = part.gapless();
  const current = { opened };
  const latest = (): KeptVersion | undefined =>
    versionOf(facts.uri, current.opened.download.latest());
  const keeper = recordPath === undefined ? undefined : new ResumeKeeper(part, recordPath, latest);
  const { onProgress = settings.onProgress, reserve, pace } = options;
  const filling: Filling = { part, keeper, onProgress, reserve, pace, checkedSize: facts.size };
  const aborted = (): boolean => settings.signal.aborted;
  try {
    if (facts.size !== undefined) {
      await ensureSpace(part.directory, facts.size - resumedBytes);
      part.expect(facts.size);
    }
    const answer = await fetchAll(filling, current, reopen, connectionsOf(options));
    // hashing the bytes of an earlier run can take minutes
    const { size, sha256 } = await abortable(part.finish(), current.opened.settings.signal);
    ensureLength(facts.uri, answer.size, size);
    ensureDigest(facts.uri, answer.sha256, sha256);
    ensureDigest(facts.uri, options.sha256, sha256);
    const verified = (options.sha256 ?? answer.sha256) === undefined ? "length" : "digest";
    // before it has its name: a crash in between would leave a file that does not look like the server's
    const modifiedMs = parseHttpDate(answer.answer.headers.get("last-modified"), Date.now());
    if (isFileTime(modifiedMs)) await part.date(modifiedMs);
    const saved = { path: await publish(part), size, sha256, verified, resumedBytes } as const;
    await keeper?.forget();
    return saved;
  } catch (error) {
    const passing = SluiceError.is(error) ? error.retryable || isFullDisk(error) : aborted();
    current.opened.cancel(error);
    const isKept = passing && ((await keeper?.keep()) ?? false);
    const arrivedBytes = part.gapless();
    if (!isKept) {
      await part.discard();
      await keeper?.forget();
    }
    throw isFullDisk(error)
      ? shortOfRoom(error as SluiceError, facts.size, arrivedBytes, isKept)
      : error;
  } finally {
    await part.close();
    download.cancel();
  }
}

async function fetchAll(
  filling: Filling,
  current: { opened: OpenedResource },
  reopen: () => Promise<OpenedResource>,
  connections: number,
): Promise<CheckedAnswer> {
  const { part, keeper } = filling;
  const { opened } = current;
  const { download } = opened;
  const first = download.latest() as CheckedAnswer;
  const version = versionOf(opened.facts.uri, first);
  const inParts = part.gapless() > 0 || (connections > 1 && (await canServeRanges(opened, first)));
  if (version && inParts) {
    try {
      await fetchShares(filling, opened, version, connections);
      return first;
    } catch (error) {
      if (!SluiceError.is(error) || error.code !== "precondition_failed") throw error;
      await keeper?.forget();
      await part.restart();
    }
  } else if (first.start === 0) return fetchWhole(filling, opened);
  // what it follows was there before it was asked for, and is not now
  download.cancel();
  current.opened = await reopen();
  await current.opened.admit(part.directory);
  return fetchWhole(filling, current.opened);
}

/** A server's word about the past: future times, and the zero that stands for none, are ignored. */
export function isFileTime(ms: number | undefined): ms is number {
  return ms !== undefined && ms > 0 && ms <= Date.now();
}

/** A full disk as the whole save sees it: bytes present, bytes missing, and what to do. */
function shortOfRoom(
  cause: SluiceError,
  size: number | undefined,
  arrivedBytes: number,
  isKept: boolean,
): SluiceError {
  if (arrivedBytes === 0) return cause;
  const [what = cause.message] = cause.message.split("; ");
  const missing = size === undefined ? "" : `, ${size - arrivedBytes} are missing`;
  const state = isKept
    ? `${arrivedBytes} bytes are kept${missing}; make room and save again to go on`
    : `${arrivedBytes} bytes fitted${missing}; make room or save elsewhere`;
  return new SluiceError("no_space", `${what}: ${state}`, { cause, origin: diskOrigin });
}

async function canServeRanges({ grants }: OpenedResource, answer: CheckedAnswer): Promise<boolean> {
  const { target } = await grants.grant();
  return target !== undefined && answer.answer.headers.get("accept-ranges") !== "none";
}

/** The version that a response belongs to, if it is distinct from others. */
function versionOf(uri: string, answer: CheckedAnswer | undefined): KeptVersion | undefined {
  const { etag, size = 0 } = answer ?? {};
  return etag === undefined || size === 0 ? undefined : { uri, etag, size };
}

function connectionsOf({ connections = 1 }: SaveOptions): number {
  if (!Number.isInteger(connections) || connections < 1 || connections > 16)
    throw new RangeError(`client: ${connections} connections; pass a whole number from 1 to 16`);
  return connections;
}

function ensureLength(uri: string, promised: number | undefined, found: number): void {
  if (promised === undefined || promised === found) return;
  throw new SluiceError(
    "corrupt",
    `client: ${JSON.stringify(uri)} has ${promised} bytes, but ${found} arrived; fetch it again`,
  );
}

/**
 * The bytes that an interrupted save of a resource left, by its record: known before the server is asked, unless it names the
 * file in a folder otherwise than its URI does.
 */
export async function findKept(
  uri: string,
  path: string,
  wantedName: string | undefined,
): Promise<KeptBytes | undefined> {
  const { directory, name } = await placeOf(path, wantedName ?? fileNameFromUri(uri));
  const record = await readRecord(join(directory, recordName(uri, name)));
  if (!record || (record.writer && mayRun(record.writer))) return undefined;
  const { keptBytes: receivedBytes, etag, size } = record;
  const isRange = receivedBytes > 0 && receivedBytes < size && parseEntityTag(etag)?.strong;
  return isRange ? { receivedBytes, etag, size } : undefined;
}

/**
 * The part file of a resumable save: that of an earlier run, if it surely belongs to this version of this resource, or
 * a new one. `undefined` while another process has the record. Saves that begin at the same moment may all get one; the
 * record is the last one's, and nothing else is shared.
 */
async function openKept(recordPath: string, wanted: KeptVersion): Promise<PartFile | undefined> {
  const directory = dirname(recordPath);
  const leftoverRecord = await readRecord(recordPath);
  if (leftoverRecord?.writer && mayRun(leftoverRecord.writer)) return undefined;
  const part =
    (leftoverRecord && (await takeOver(directory, leftoverRecord, wanted))) ??
    (await createPartFile(directory, randomPartName("kept")));
  const claim = { part: basename(part.path), keptBytes: part.gapless(), writer: thisProcess() };
  // without a record it is an ordinary save
  await writeRecord(recordPath, { ...wanted, ...claim }).catch(() => {});
  return part;
}

/**
 * Opens what a record names under a new name, or deletes it when it does not belong to this version. Of all
 * processes that try, one can rename it; for the others, and for readers of the record, it is gone.
 * The prefix is hashed again in any case.
 */
async function takeOver(
  directory: string,
  left: ResumeRecord,
  wanted: KeptVersion,
): Promise<PartFile | undefined> {
  const path = join(directory, randomPartName("kept"));
  try {
    await rename(join(directory, left.part), path);
  } catch {
    return undefined;
  }
  const { O_RDWR, O_NOFOLLOW } = constants;
  const handle = await openHandle(path, O_RDWR | O_NOFOLLOW).catch(() => undefined);
  try {
    if (handle && fits(left, wanted, await handle.stat())) {
      await handle.truncate(left.keptBytes);
      return partFileOf(handle, path, left.keptBytes);
    }
  } catch {
    // a file that cannot be looked at or cut is not resumed
  }
  await handle?.close();
  await unlink(path).catch(() => {});
  return undefined;
}

function fits(record: ResumeRecord, wanted: KeptVersion, info: Stats): boolean {
  const { uri, etag, size, keptBytes } = record;
  const same = uri === wanted.uri && etag === wanted.etag && size === wanted.size;
  const within = keptBytes > 0 && keptBytes <= size && keptBytes <= info.size;
  return same && within && isMine(info) && info.nlink === 1;
}
