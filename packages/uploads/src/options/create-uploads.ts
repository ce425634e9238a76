import type { Principal } from "@sluice/core";
import { definedMembers, sanitizeFileName } from "@sluice/core/internal";
import type { AnyCall, AnyMcpServer, Sluice } from "@sluice/server";
import type { Host } from "@sluice/server/internal";
import type { RequestBody } from "@sluice/transport-http";
import type { z } from "zod/v4";
import { type AskForFiles, createAskForFiles } from "../ask/ask-for-files.ts";
import { askVisitor, type AskVisitor } from "../ask/ask-visitor.ts";
import { AnswerConfirmation } from "../ask/confirm-answer.ts";
import { PendingUploads } from "../ask/pending-uploads.ts";
import { Confirmation } from "../confirm/confirm.ts";
import { UploadRemover } from "../confirm/remove-upload.ts";
import { startSweeper } from "../confirm/sweep.ts";
import type { Fields } from "../elicitation/fields.ts";
import type { FileArgument, FileInputTerms } from "../files-sep-2631/file-input.ts";
import { createFileUris } from "../files-sep-2631/file-uri.ts";
import { openInput } from "../files-sep-2631/open-input.ts";
import { serveCaller } from "../files-sep-2631/file-fault.ts";
import { QuotaTracker } from "../limits/quota-tracker.ts";
import { StorageRoom } from "../limits/room.ts";
import { WriteLock } from "../limits/write-lock.ts";
import { takeAnswer } from "../page/take-answer.ts";
import { UploadPageStore } from "../page/upload-pages.ts";
import { createBodyReader, receiveFile, type ReceiverParts } from "../receive/raw-upload.ts";
import { ChecksMemory } from "../checks/file-checks.ts";
import { PartialFiles } from "../resumable/partial-files.ts";
import { ResumableUploads } from "../resumable/resumable-upload.ts";
import { createPageRoutes } from "../routes/page-route.ts";
import { createUploadRoutes } from "../routes/upload-route.ts";
import { OpenRequests, type Shutdown } from "../slots/open-requests.ts";
import { ProgressTracker } from "../slots/progress-tracker.ts";
import { ownerOf, SlotTokens, tagOfOwner } from "../slots/slot-token.ts";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { codeOf } from "../slots/upload-error.ts";
import { SlotFiles } from "../store/slot-files.ts";
import { createAskedUploads } from "../tools/asked-uploads.ts";
import {
  type FileToolConfig,
  type FileToolHandler,
  registerFileTool,
} from "../tools/register-tool.ts";
import { attachUploadTools, type AttachUploadsOptions } from "../tools/upload-tools.ts";
import type { UploadsHost } from "./serve-uploads.ts";
import { readOptions, type UploadsOptions } from "./uploads-options.ts";

/** Options of `close`. */
export interface CloseUploadsOptions {
  /** Milliseconds that uploads in progress may still take, but for those that can resume elsewhere. Default: 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** Slots and the endpoint that takes what is sent to them, and tools over both. */
export interface Uploads extends Slots {
  /** For `createHandler`, and for other packages of Sluice. */
  readonly host: UploadsHost;
  /**
   * Registers a tool that asks its user for files, in every host: it adds the argument `upload_id` and the result that asks,
   * and calls the handler only with files that the user sent. A refusal is a result in words. When the handler ends, even by an
   * error, files are removed that it did not `keep()`. Gives the same server back. Throws a `TypeError` for a tool that could not
   * ask.
   */
  registerTool<
    const F extends Fields,
    Input extends z.ZodObject = z.ZodObject<Record<string, never>>,
    Mcp extends AnyMcpServer = AnyMcpServer,
  >(
    mcp: Mcp,
    name: string,
    config: FileToolConfig<F, Input>,
    handler: FileToolHandler<F, Input, Mcp>,
  ): Mcp;
  /** Asks the user for files, from inside a tool: what `registerTool` is made of, for tools that ask only sometimes. */
  readonly ask: AskForFiles;
  /** Asks a visitor of a page of yours for files, on an upload page: without any tool. Also give a signal that ends the wait. */
  readonly askVisitor: AskVisitor;
  /**
   * Registers two tools with which a model gets a file from its user, in every host: one gives a page for the user and a curl
   * command, the other the file's URI, which arguments of `fileInput()` take. Gives the same server back.
   */
  attach<Mcp extends AnyMcpServer>(mcp: Mcp, options?: AttachUploadsOptions): Mcp;
  /**
   * The file of an argument that was declared with `fileInput(terms)`, whether its bytes came in the argument, were
   * uploaded before, or are fetched from the host that handed it over. It is yours until `remove()`. Throws a `ProtocolError`
   * with `data.reason` for what the terms do not allow.
   */
  open(argument: FileArgument, terms: FileInputTerms, call: AnyCall): Promise<UploadedFile>;
  /** Removes what was never confirmed and whose time is over, unless another process does. Also runs at the start and by timer. */
  sweep(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /**
   * Ends the timer and the uploads in progress: those in steps at once, with what came of them kept, the others at
   * the deadline. Idempotent.
   */
  close(options?: CloseUploadsOptions): Promise<void>;
}

/**
 * Makes the upload side of a Sluice: the same endpoint, keys, identities, limits and records.
 * Throws a `TypeError` or `RangeError` for options that cannot work.
 */
export function createUploads(sluice: Pick<Sluice, "host">, options: UploadsOptions): Uploads {
  const checked = readOptions(sluice, options);
  const { storage, scan, store, maxBytes, sweepIntervalMs, trustedOrigins } = checked;
  const { host } = sluice;
  const { onError } = host;

  // what all of it shares
  const requests = new OpenRequests();
  const { closing } = requests;
  const tokens = new SlotTokens(host, { maxBytes, maxStepBytes: checked.maxStepBytes });
  const quota = new QuotaTracker({
    store,
    limits: options.limits,
    seedEveryMs: sweepIntervalMs,
    onError,
  });
  const progress = new ProgressTracker();
  const lock = new WriteLock(store, onError);
  const pages = new UploadPageStore(host);

  // from received bytes to a confirmed file
  const files = new SlotFiles({ storage, scan, quota, onError });
  const remover = new UploadRemover({ storage, quota, progress, host });
  const confirmation = new Confirmation({ storage, store, quota, scan, remover, closing, onError });

  // from a request to received bytes
  const readBody = createBodyReader(options.pace ?? {});
  const receiving = { files, quota, progress, readBody, onError };
  const room = new StorageRoom(storage);
  const memory = new ChecksMemory();
  const partials = new PartialFiles({ storage, files, quota, progress, memory, onError });
  const isAnswered = (uploadId: string): Promise<boolean> => pages.isAnswered(uploadId);
  const resumable = new ResumableUploads({
    ...receiving,
    partials,
    lock,
    room,
    isAnswered,
    requests,
  });
  const services = { ...receiving, storage, partials, resumable, room };
  const answering = { storage, tokens, lock, pages, remover, onError };

  // for tools
  const slots = slotsOver({
    host,
    tokens,
    receiving,
    confirmation,
    remover,
    pages,
    progress,
    closing,
  });
  const sweeper = startSweeper({
    storage,
    store,
    quota,
    remover,
    progress,
    everyMs: sweepIntervalMs,
    closing,
    onError,
  });
  const pending = new PendingUploads(host);
  const uris = createFileUris(host);
  let isServed = false;
  const ask = createAskForFiles({
    host,
    slots,
    pages,
    pending,
    takeAnswer: (page, given) =>
      closing.during(undefined, (ending) => takeAnswer(answering, page, given, ending)),
    isServed: () => isServed,
  });
  const askedUploads = createAskedUploads({ host, slots, pages, pending, uris });
  const inputs = { slots, uris, trustedOrigins, maxBytes, onError };
  return {
    ...slots,
    host: {
      sluice: host,
      routes(base) {
        isServed = true;
        const slotAt = createUploadRoutes({ host, tokens, requests, services, pages }, base);
        const pageAt = createPageRoutes({ host, pages, answering, closing }, base);
        return (path) => slotAt(path) ?? pageAt(path);
      },
    },
    registerTool(mcp, name, config, handler) {
      registerFileTool({ ask, host }, mcp, name, config, handler);
      return mcp;
    },
    ask,
    askVisitor: (request, call) =>
      askVisitor(
        { host, slots, pages, confirmation: new AnswerConfirmation({ slots, pages, onError }) },
        request,
        call,
      ),
    attach(mcp, attachOptions) {
      attachUploadTools({ asked: askedUploads, host }, mcp, attachOptions);
      return mcp;
    },
    open: (argument, terms, call) =>
      serveCaller(host, call, ({ owner, signal }) =>
        openInput(inputs, argument, { terms, owner, signal }),
      ),
    sweep: ({ signal } = {}) =>
      requests.track(closing.during(signal, (ending) => sweeper.sweep(ending))),
    async close({ deadlineMs = 0, signal } = {}) {
      await requests.close(deadlineMs, signal);
      memory.clear();
      // what tidies up needs the storage, which may be closed next
      await sweeper.close();
    },
  };
}

/** The slots of one endpoint. What they do ends when `closing` aborts. */
function slotsOver({
  host,
  tokens,
  receiving,
  confirmation,
  remover,
  pages,
  progress,
  closing,
}: {
  readonly host: Pick<Host, "beginAudit" | "onError">;
  readonly tokens: SlotTokens;
  readonly receiving: ReceiverParts;
  readonly confirmation: Confirmation;
  readonly remover: UploadRemover;
  readonly pages: Pick<UploadPageStore, "concludeSlot">;
  readonly progress: ProgressTracker;
  readonly closing: Shutdown;
}): Slots {
  return {
    async reserve(principal, terms, options = {}) {
      const { url, slot } = await tokens.issue(principal, terms, options);
      const { uploadId, owner, expiresAt } = slot;
      const audited = { grant: uploadId, principal: tagOfOwner(owner) };
      host.beginAudit({ action: "upload", step: "reserve", ...audited }).end("issued");
      return { uploadId, url, method: "POST", expiresAt, terms: slot.terms };
    },

    async confirm(principal, uploadId, claims, { signal, unnamed } = {}) {
      const files = await recordConfirmation(host, principal, uploadId, () => {
        const answer = definedMembers({ claims, unnamed });
        return closing.during(signal, (ending) =>
          confirmation.confirm(principal, uploadId, answer, ending),
        );
      });
      await pages.concludeSlot(uploadId, "accepted").catch(host.onError);
      return files;
    },
    received: (principal, uploadId, { signal } = {}) =>
      closing.during(signal, (ending) => confirmation.received(principal, uploadId, ending)),
    reopen: (principal, uploadId, { signal } = {}) =>
      closing.during(signal, (ending) => confirmation.reopen(principal, uploadId, ending)),

    keep: (principal, file, terms, { signal } = {}) =>
      closing.during(signal, async (ending) => {
        const { name, mimeType } = file;
        const { size, body } = "bytes" in file ? bodyOf(file.bytes) : file;
        const slot = tokens.describe(principal, terms);
        const records = await receiveFile(receiving, {
          slot,
          facts: {
            ...definedMembers({ contentLength: size, contentType: mimeType }),
            name: name === undefined ? undefined : sanitizeFileName(name),
          },
          body,
          signal: ending,
          onBytes: () => {},
        });
        const claims = records.map((record) => ({
          name: sanitizeFileName(name, "file"),
          size: record.size,
          mimeType: record.mimeType,
          sha256: record.sha256,
        }));
        const [kept] = await confirmation.confirm(principal, slot.uploadId, { claims }, ending);
        return kept!;
      }),

    async revoke(principal, { uploadId, expiresAt }) {
      const slot = { uploadId, expiresAt, owner: ownerOf(principal) };
      await closing.during(undefined, (ending) => remover.revoke(slot, ending));
      await pages.concludeSlot(uploadId, "cancelled").catch(host.onError);
    },
    discard: (uploadId) => closing.during(undefined, (ending) => remover.discard(uploadId, ending)),
    progress: (uploadId) => progress.of(uploadId),
  };
}

function bodyOf(bytes: Uint8Array): { readonly size: number; readonly body: RequestBody } {
  return { size: bytes.byteLength, body: { read: async (take) => take(bytes) } };
}

/** Confirms an upload and records it. If records are required and cannot be kept, nothing is confirmed. */
async function recordConfirmation(
  host: Pick<Host, "beginAudit">,
  owner: Principal | undefined,
  uploadId: string,
  work: () => Promise<readonly UploadedFile[]>,
): Promise<readonly UploadedFile[]> {
  const principal = tagOfOwner(ownerOf(owner));
  const entry = host.beginAudit({ action: "upload", step: "confirm", grant: uploadId, principal });
  try {
    await entry.recordBegun();
    const files = await entry.run(work);
    await entry.conclude("complete", { bytes: files.reduce((sum, { size }) => sum + size, 0) });
    return files;
  } catch (error) {
    const reason = codeOf(error);
    entry.end(reason === "internal" || reason === "unavailable" ? "failed" : "denied", { reason });
    throw error;
  }
}
