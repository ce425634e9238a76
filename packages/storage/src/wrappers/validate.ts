import { SluiceError } from "@sluice/core";
import {
  createFlowBody,
  type Deadline,
  definedMembers,
  discardSource,
  flowOf,
  systemClock,
  within,
} from "@sluice/core/internal";
import {
  type ChangeBatch,
  type FindKept,
  type ListOptions,
  type OpenedObject,
  type OpenOptions,
  type StepWriter,
  type StorageBackend,
  withKept,
  type WriteOptions,
} from "../contract/backend.ts";
import { checkKey } from "../contract/key.ts";
import { UnlistedTally } from "../contract/unlisted.ts";
import { withBody } from "../contract/opened.ts";
import { beginOperation } from "../plugin/operation.ts";
import { countedFlow } from "./counted-flow.ts";
import { type Surroundings, wrapBackend } from "./wrap.ts";

const maxCursorLength = 8192;

/** Settings of {@link withValidation}. */
export interface ValidateOptions {
  /** Longest wait for a response, or for the next chunk of a body; then `timeout`. Default: 30 s. */
  readonly idleMs?: number;
}

/**
 * Checks what goes into a backend and what comes out. Illegal keys, ranges, limits and cursors
 * are `invalid_argument` before the backend sees them. An answer that does not fit the question
 * is `corrupt`, or `precondition_failed` when it is another version. A body is counted: too
 * short is `interrupted`, too long is `corrupt`, and its last chunk waits until that is known.
 * A response or a chunk that does not come in time is `timeout`; an abort ends every wait at once.
 *
 * A `file` or `bytes` face is checked for its length and passed on.
 */
export function withValidation(
  backend: StorageBackend,
  options: ValidateOptions & Surroundings = {},
): StorageBackend {
  const { name } = backend;
  const { idleMs = 30_000, clock = systemClock } = options;
  const deadline = (operation: string, signal?: AbortSignal): Deadline => ({
    clock,
    timeoutMs: idleMs,
    expired: () => new SluiceError("timeout", `${operation}: no data for ${idleMs} ms`),
    signal,
  });

  return wrapBackend(backend, {
    describe: (describe) => async (key, callOptions) => {
      const operation = beginOperation(`${name}: describe`, key, callOptions);
      return within(describe(key, callOptions), deadline(operation, callOptions?.signal));
    },

    open: (open) => {
      const checked: StorageBackend["open"] = async (key, openOptions = {}) => {
        const operation = beginOperation(`${name}: open`, key, openOptions);
        const wait = deadline(operation, openOptions.signal);
        const opened = await within(
          open(key, openOptions),
          wait,
          (late) => void discardSource(late),
        );
        try {
          ensureAnswer(opened, openOptions, operation);
        } catch (error) {
          await discardSource(opened, error);
          throw error;
        }
        const expected = { operation, bytes: expectedBytes(opened), wait };
        return withBody(opened, () => createFlowBody(countedFlow(flowOf(opened.body), expected)));
      };
      return withKept(checked, validatedFind(open.inMemory));
    },

    list:
      (list) =>
      async (listOptions = {}) => {
        listOptions.signal?.throwIfAborted();
        const operation = `${name}: list`;
        ensureListOptions(listOptions, operation);
        const page = await within(list(listOptions), deadline(operation, listOptions.signal));
        if (page.objects.length > (listOptions.limit ?? Infinity))
          throw new SluiceError("corrupt", `${operation}: more objects came than were asked for`);
        if (page.cursor !== undefined && page.cursor === listOptions.cursor)
          throw new SluiceError("corrupt", `${operation}: the walk does not move on`);
        // an object without a legal key cannot be read
        const objects = page.objects.filter(({ key }) => isLegal(key));
        if (objects.length === page.objects.length) return page;
        const tally = new UnlistedTally();
        tally.addAll(page.unlisted);
        for (const { key } of page.objects) tally.addName(key);
        return { ...page, objects, ...definedMembers({ unlisted: tally.take() }) };
      },

    presign: (presign) => async (key, presignOptions) => {
      const operation = beginOperation(`${name}: presign`, key, presignOptions);
      ensureCount(presignOptions.expiresInMs, 1, `${operation}: expiresInMs`);
      return within(presign(key, presignOptions), deadline(operation, presignOptions.signal));
    },

    watch: (watch) => (watchOptions) => {
      ensureListOptions(watchOptions, `${name}: watch`);
      return nameable(watch(watchOptions));
    },

    freeBytes:
      (freeBytes) =>
      (call = {}) =>
        within(freeBytes(call), deadline(`${name}: free bytes`, call.signal)),

    write:
      (write) =>
      async (key, writeOptions = {}) => {
        const operation = beginOperation(`${name}: write`, key, writeOptions);
        ensureWriteOptions(writeOptions, operation);
        return within(
          write(key, writeOptions),
          deadline(operation, writeOptions.signal),
          (late) => {
            late.abort().catch(() => {});
          },
        );
      },

    writeInSteps:
      (writeInSteps) =>
      async (key, stepOptions = {}) => {
        const operation = beginOperation(`${name}: write in steps`, key, stepOptions);
        const writer = await within(
          writeInSteps(key, stepOptions),
          deadline(operation, stepOptions.signal),
          (late) => {
            // one that was begun has no other owner; of one that goes on the kept bytes stay
            const end = stepOptions.id === undefined ? late.abort() : late.suspend();
            end.catch(() => {});
          },
        );
        ensureStep(writer, operation);
        return writer;
      },

    remove: (remove) => async (key, callOptions) => {
      const operation = beginOperation(`${name}: remove`, key, callOptions);
      return within(remove(key, callOptions), deadline(operation, callOptions?.signal));
    },
  });
}

/** Changes without illegal keys: one of them must not hold back the others. */
async function* nameable(batches: AsyncIterable<ChangeBatch>): AsyncGenerator<ChangeBatch> {
  for await (const batch of batches) {
    const { changed, removed } = batch;
    yield {
      ...batch,
      ...definedMembers({ changed: changed?.filter(isLegal), removed: removed?.filter(isLegal) }),
    };
  }
}

function isLegal(key: string): boolean {
  return checkKey(key) === undefined;
}

/** Throws unless what was opened is what was asked for. */
function ensureAnswer(
  opened: OpenedObject,
  { range, ifMatch }: OpenOptions,
  operation: string,
): void {
  const { info, file, bytes } = opened;
  if (ifMatch !== undefined && info.etag !== undefined && info.etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${operation}: another version came`);
  if (range === undefined ? opened.range !== undefined : !isWithin(opened, range))
    throw new SluiceError("corrupt", `${operation}: another range came than was asked for`);
  const size = expectedBytes(opened);
  if (file !== undefined && size !== undefined && file.end - file.start !== size)
    throw new SluiceError("corrupt", `${operation}: the file is not as long as was promised`);
  if (bytes !== undefined && size !== undefined && bytes.byteLength !== size)
    throw new SluiceError("corrupt", `${operation}: the bytes are not as many as were promised`);
}

/**
 * Gives an object from memory only if its key is legal and its length is right. The rest is left to `open`, which
 * refuses it.
 */
function validatedFind(find: FindKept | undefined): FindKept | undefined {
  if (!find) return undefined;
  return (key) => {
    const object = isLegal(key) ? find(key) : undefined;
    return object?.bytes.byteLength === object?.info.size ? object : undefined;
  };
}

/** True when the delivered range is the asked one, shortened at most to the end of the object. */
function isWithin(
  { info, range: got }: OpenedObject,
  asked: NonNullable<OpenOptions["range"]>,
): boolean {
  if (got === undefined || got.start !== asked.start || got.end < got.start) return false;
  const end = Math.min(asked.end ?? Infinity, info.size ?? got.end);
  return got.end === end;
}

/** How many bytes the body must have, when that is known. */
function expectedBytes({ info, range }: OpenedObject): number | undefined {
  return range === undefined ? info.size : range.end - range.start;
}

function ensureListOptions({ prefix, cursor, limit }: ListOptions, operation: string): void {
  if (prefix !== undefined && typeof prefix !== "string")
    throw new SluiceError("invalid_argument", `${operation}: the prefix is not a string`);
  if (
    cursor !== undefined &&
    (typeof cursor !== "string" || cursor === "" || cursor.length > maxCursorLength)
  )
    throw new SluiceError("invalid_argument", `${operation}: the cursor is not one of this store`);
  if (limit !== undefined) ensureCount(limit, 1, `${operation}: limit`);
}

function ensureWriteOptions({ size, ifMatch, ifAbsent }: WriteOptions, operation: string): void {
  if (size !== undefined) ensureCount(size, 0, `${operation}: size`);
  if (ifAbsent && ifMatch !== undefined)
    throw new SluiceError(
      "invalid_argument",
      `${operation}: ifMatch and ifAbsent exclude each other`,
    );
}

/** Throws unless the next step can begin with the id and offset of a writer. */
function ensureStep({ id, offset }: StepWriter, operation: string): void {
  if (!Number.isSafeInteger(offset) || offset < 0 || !/^[\x21-\x7e]{1,1024}$/.test(id))
    throw new SluiceError("corrupt", `${operation}: the writer has no id or no offset`);
}

function ensureCount(value: number, least: number, what: string): void {
  if (!Number.isSafeInteger(value) || value < least)
    throw new SluiceError("invalid_argument", `${what} must be a whole number from ${least}`);
}
