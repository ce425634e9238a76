import type { AnyCall, AnyMcpServer, Sluice } from "@sluice/server";
import type { Host } from "@sluice/server/internal";
import type { Routes, SluiceHandler } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/internal";
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
import { uploadAppOf } from "../page/upload-app.ts";
import { UploadPageStore } from "../page/upload-pages.ts";
import { createBodyReader } from "../receive/body-reader.ts";
import { ChecksMemory } from "../checks/file-checks.ts";
import { PartialFiles } from "../resumable/partial-files.ts";
import { ResumableUploads } from "../resumable/resumable-upload.ts";
import { createPageRoutes } from "../routes/page-route.ts";
import { createUploadRoutes } from "../routes/upload-route.ts";
import { OpenRequests } from "../slots/open-requests.ts";
import { ProgressTracker } from "../slots/progress-tracker.ts";
import { SlotTokens } from "../slots/slot-token.ts";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { SlotFiles } from "../store/slot-files.ts";
import { createAskedUploads } from "../tools/asked-uploads.ts";
import {
  type FileToolConfig,
  type FileToolHandler,
  registerFileTool,
} from "../tools/register-tool.ts";
import { attachUploadTools, type AttachUploadsOptions } from "../tools/upload-tools.ts";
import { createSlots } from "./create-slots.ts";
import { readOptions, type UploadsOptions } from "./uploads-options.ts";

/** Options of `close`. */
export interface CloseUploadsOptions {
  /** Milliseconds that uploads in progress may still take, but for those that can resume elsewhere. Default: 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** What handlers and other packages of Sluice use of uploads. */
export interface UploadsHost {
  /** The Sluice that they were made for, as its other packages see it. */
  readonly sluice: Host;
  /** The routes below the path of an endpoint. */
  routes(base: string): Routes;
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
  let isServed = false;
  const slots = createSlots({
    host,
    tokens,
    receiving,
    confirmation,
    remover,
    pages,
    progress,
    closing,
    isServed: () => isServed,
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
  const ask = createAskForFiles({
    host,
    slots,
    pages,
    pending,
    takeAnswer: (page, given) =>
      closing.runUntil(undefined, (ending) => takeAnswer(answering, page, given, ending)),
    isServed: () => isServed,
  });
  const askedUploads = createAskedUploads({ host, slots, pages, pending, uris });
  const app = uploadAppOf(host.endpoint.url);
  const inputs = { slots, uris, trustedOrigins, maxBytes, onError };
  return {
    ...slots,
    host: {
      sluice: host,
      routes(base) {
        isServed = true;
        const slotAt = createUploadRoutes({ host, tokens, requests, services, pages }, base);
        const pageAt = createPageRoutes(
          { host, pages, answering, closing, siteName: options.name },
          base,
        );
        return (path) => slotAt(path) ?? pageAt(path);
      },
    },
    registerTool(mcp, name, config, handler) {
      registerFileTool({ ask, host, app }, mcp, name, config, handler);
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
      attachUploadTools({ asked: askedUploads, pages, host, app }, mcp, attachOptions);
      return mcp;
    },
    open: (argument, terms, call) =>
      serveCaller(host, call, ({ owner, signal }) =>
        openInput(inputs, argument, { terms, owner, signal }),
      ),
    sweep: ({ signal } = {}) =>
      requests.track(closing.runUntil(signal, (ending) => sweeper.sweep(ending))),
    async close({ deadlineMs = 0, signal } = {}) {
      await requests.close(deadlineMs, signal);
      memory.clear();
      // what tidies up needs the storage, which may be closed next
      await sweeper.close();
    },
  };
}

/**
 * Adds the upload endpoint (`<endpoint>/u/…` and `<endpoint>/uploads/…`) and its pages to a handler, behind its checks of `Host` and `Origin`. Over
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams.
 */
export function withUploads(
  handler: SluiceHandler,
  { host }: { readonly host: UploadsHost },
): SluiceHandler {
  return addRoutes(handler, host.routes(handler.router.base));
}
