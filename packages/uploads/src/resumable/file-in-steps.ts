import { createSha256, systemClock } from "@sluice/core/internal";
import type { StepEnd, StepWriter } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import {
  type AnnouncedFile,
  checkBody,
  type ChecksMemory,
  createFileChecks,
} from "../checks/file-checks.ts";
import { codeOf, uploadError } from "../slots/upload-error.ts";
import { bothOf, WriteQueue } from "../store/write-queue.ts";
import {
  beginningBytes,
  bytesKey,
  type FilePlan,
  folderOf,
  planKey,
  stepKey,
} from "../store/layout.ts";
import { replaceJson, type UploadStorage, writeObject } from "../store/upload-storage.ts";
import { alreadyResumed, type FileAddress, type PartialFile } from "./partial-file.ts";

/** Storage that objects are written to in steps. */
export type StepStorage = UploadStorage & Required<Pick<UploadStorage, "writeInSteps">>;

/** How often arrived bytes are kept, however long a request lasts: what a crash can cost. */
const keepEveryMs = 60_000;
/** Or after this many bytes: what a crash can hide from the quota. */
const keepEveryBytes = 256 * 1024 * 1024;

/** Collaborators of files in steps. */
export interface StepServices {
  readonly storage: StepStorage;
  readonly memory: ChecksMemory;
  readonly onError: (error: unknown) => void;
}

/** Begins a file: storage knows it from then on, and no listing shows it before its plan is there. */
export async function beginFileInSteps(
  services: StepServices,
  address: FileAddress,
  plan: FilePlan,
): Promise<PartialFile> {
  const key = bytesKey(folderOf(address.slot), address.fileId);
  const stop = new AbortController();
  const writer = await services.storage.writeInSteps(key, { signal: stop.signal });
  const record = createStepRecord(services, address, { ...plan, steps: writer.id });
  return createFileInSteps(services, address, {
    writer,
    stop,
    record,
    rest: new Uint8Array(),
  });
}

/** Resumes a file. Gives `undefined` if storage has nothing to resume: the file is an object already, or lost. */
export async function openFileInSteps(
  services: StepServices,
  address: FileAddress,
  plan: FilePlan & { readonly steps: string },
): Promise<PartialFile | undefined> {
  const key = bytesKey(folderOf(address.slot), address.fileId);
  const stop = new AbortController();
  const options = { id: plan.steps, signal: stop.signal };
  const writer = await unlessMissing(services.storage.writeInSteps(key, options));
  if (!writer) return undefined;
  try {
    const record = createStepRecord(services, address, plan);
    const rest = await record.find(writer.offset);
    const isEmpty = writer.offset + rest.byteLength === 0;
    // not every service remembers that the upload became an object
    if (isEmpty && (await unlessMissing(services.storage.describe(key)))) {
      await writer.suspend();
      return undefined;
    }
    return createFileInSteps(services, address, { writer, stop, record, rest });
  } catch (error) {
    stop.abort(error);
    throw error;
  }
}

function createFileInSteps(
  { storage, memory }: Omit<StepServices, "onError">,
  { slot, fileId, lease }: FileAddress,
  opened: {
    readonly writer: StepWriter;
    /** Ends writing. What storage has kept stays. */
    readonly stop: AbortController;
    readonly record: StepRecord;
    /** Bytes after those that storage has. */
    readonly rest: Uint8Array;
  },
): PartialFile {
  const { stop, record } = opened;
  const key = bytesKey(folderOf(slot), fileId);
  const announced = announcedBy(record.plan, slot.terms.accept);
  const { id } = opened.writer;
  let writer: StepWriter | undefined = opened.writer;
  let { rest } = opened;
  let keptBytes = opened.writer.offset + rest.byteLength;
  let offset = keptBytes;
  let newBytes = 0;
  let keptAt = systemClock.now();
  let checks =
    memory.take(fileId, keptBytes) ?? (keptBytes === 0 ? createFileChecks(announced) : undefined);

  /** The writer, after the rest of the previous step was written to it. */
  async function currentWriter(): Promise<StepWriter> {
    if (!writer) {
      writer = await storage.writeInSteps(key, { id, signal: stop.signal });
      if (writer.offset + rest.byteLength !== keptBytes) throw alreadyResumed();
    }
    if (rest.byteLength > 0) {
      const first = rest;
      rest = new Uint8Array();
      await writer.write(first);
    }
    return writer;
  }

  async function keepNew(): Promise<void> {
    lease.ensureOurs();
    const stepWriter = writer;
    writer = undefined;
    if (!stepWriter) return;
    const end = await stepWriter.suspend();
    await record.keep(end);
    ({ rest } = end);
    keptBytes = end.offset + rest.byteLength;
    newBytes = 0;
    keptAt = systemClock.now();
  }

  const queue = new WriteQueue(async (chunk) => {
    await record.observe(chunk);
    const target = await currentWriter();
    const { byteLength } = chunk;
    await target.write(chunk);
    newBytes += byteLength;
    if (newBytes >= keepEveryBytes || systemClock.now() - keptAt >= keepEveryMs) await keepNew();
  });

  async function leave(): Promise<void> {
    if (checks && offset === keptBytes) memory.put(fileId, checks);
    else checks?.stop();
    checks = undefined;
    stop.abort(uploadError("interrupted", "the request is through with this file"));
  }

  return {
    fileId,
    get plan() {
      return record.plan;
    },
    get offset() {
      return offset;
    },
    write(chunk) {
      offset += chunk.byteLength;
      const checking = checks?.add(chunk);
      const queueing = queue.push(chunk);
      return bothOf(checking, queueing);
    },
    async keep() {
      await queue.drain();
      if (newBytes > 0) await keepNew();
      const idle = writer;
      // a step ends once, also if its end fails
      writer = undefined;
      await idle?.suspend();
      await leave();
      return keptBytes;
    },
    async finish(signal) {
      await queue.drain();
      const haveChecksSeenAll = checks !== undefined && checks.bytes === offset;
      const checked = haveChecksSeenAll ? await checks!.conclude() : undefined;
      checks = undefined;
      const target = await currentWriter();
      lease.ensureOurs();
      // even if the commit fails, this writer has nothing more to keep
      writer = undefined;
      newBytes = 0;
      const { size } = await target.commit();
      if (size !== undefined && size !== offset)
        throw uploadError(
          "unavailable",
          "storage has a different number of bytes than were received",
        );
      const facts = checked ?? (await checkStored(storage, key, announced, signal));
      return { fileId, ...facts };
    },
    keys: () => record.keys(),
    async discard() {
      await writer?.abort();
    },
    leave,
  };
}

/** Opens a file whose bytes are an object already, because a process stopped before it could record that. */
export function openStoredFile(
  storage: UploadStorage,
  { slot, fileId }: Pick<FileAddress, "slot" | "fileId">,
  { plan, size }: { readonly plan: FilePlan; readonly size: number },
): PartialFile {
  const key = bytesKey(folderOf(slot), fileId);
  return {
    fileId,
    plan,
    offset: size,
    write(chunk) {
      if (chunk.byteLength > 0) throw uploadError("already_exists", "this file is complete");
      return undefined;
    },
    keep: async () => size,
    async finish(signal) {
      const announced = announcedBy(plan, slot.terms.accept);
      return { fileId, ...(await checkStored(storage, key, announced, signal)) };
    },
    keys: () => [],
    async discard() {},
    async leave() {},
  };
}

function announcedBy(
  { name, declaredType, length, sha256 }: FilePlan,
  accept: readonly string[],
): AnnouncedFile {
  return { name, declaredType, accept, expectedBytes: length, sha256 };
}

/** Reads an object that no caller can read yet. */
async function checkStored(
  storage: UploadStorage,
  key: string,
  announced: AnnouncedFile,
  signal: AbortSignal,
) {
  const { body, info } = await storage.open(key, { signal });
  return checkBody(body, { ...announced, expectedBytes: info.size });
}

/** What lies beside a file in steps, so that a listing shows how far it is and other processes can resume it. */
interface StepRecord {
  /** As it is now. */
  readonly plan: FilePlan;
  /** The received bytes after `offset` that storage could not take yet. */
  find(offset: number): Promise<Uint8Array>;
  /** Sees every chunk before it is written, and keeps a digest of the first 64 KiB in the plan. */
  observe(chunk: Uint8Array): Promise<void>;
  /** Keeps where a step has ended. */
  keep(end: StepEnd): Promise<void>;
  /** Keys of the objects that show how far the file is. */
  keys(): readonly string[];
}

/** Makes the record of one file, for the request that has its lock. */
export function createStepRecord(
  {
    storage,
    onError,
  }: { readonly storage: UploadStorage; readonly onError: (error: unknown) => void },
  { slot, fileId, lease }: FileAddress,
  initialPlan: FilePlan,
): StepRecord {
  const folder = folderOf(slot);
  let plan = initialPlan;
  /** The object that says where the last step has ended. */
  let last: { readonly key: string; readonly etag: string | undefined } | undefined;
  let isAtStart = true;
  let beginningHash: ReturnType<typeof createSha256> | undefined = createSha256();
  let hashedBytes = 0;

  async function keepBeginning(): Promise<void> {
    if (!beginningHash || hashedBytes === 0) return;
    plan = { ...plan, beginning: { bytes: hashedBytes, sha256: beginningHash.digest() } };
    beginningHash = undefined;
    lease.ensureOurs();
    await replaceJson(storage, planKey(folder, fileId), plan);
  }

  return {
    get plan() {
      return plan;
    },
    keys: () => (last ? [last.key] : []),
    async find(offset) {
      isAtStart = offset === 0;
      const key = stepKey(folder, fileId, offset);
      const found = await unlessMissing(storage.open(key));
      if (!found) return new Uint8Array();
      last = { key, etag: found.info.etag };
      const rest = new Uint8Array(await new Response(found.body).arrayBuffer());
      isAtStart &&= rest.byteLength === 0;
      return rest;
    },
    async observe(chunk) {
      if (!isAtStart || plan.beginning !== undefined) beginningHash = undefined;
      if (!beginningHash) return;
      const piece = chunk.subarray(0, beginningBytes - hashedBytes);
      beginningHash.update(piece);
      hashedBytes += piece.byteLength;
      if (hashedBytes === beginningBytes) await keepBeginning();
    },
    async keep({ offset, rest }) {
      await keepBeginning();
      lease.ensureOurs();
      const key = stepKey(folder, fileId, offset);
      const previous = last;
      // replaces the record that this request found, and no other
      const ifMatch = previous?.etag === undefined ? {} : { ifMatch: previous.etag };
      const condition = previous?.key === key ? ifMatch : { ifAbsent: true };
      try {
        const { etag } = await writeObject(storage, key, rest.slice(), condition);
        last = { key, etag };
      } catch (error) {
        if (codeOf(error) !== "precondition_failed") throw error;
        // a crash may have left a record of the same bytes
        const found =
          rest.byteLength === 0 ? await unlessMissing(storage.describe(key)) : undefined;
        if (found?.size !== 0) throw alreadyResumed(error);
        last = { key, etag: found.etag };
      }
      // if this fails, the object is removed with the plan
      if (previous && previous.key !== key) await storage.remove(previous.key).catch(onError);
    },
  };
}
