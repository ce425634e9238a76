import { lstat, mkdtemp, readdir, rm, utimes } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import {
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type InputRequiredResult,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { createRecentEntries, definedMembers } from "@sluice/core/internal";
import type { Caller, Sluice } from "@sluice/server";
import { callerOf, optionalInput, tagOf, toolFault, toolSchema } from "@sluice/server/internal";
import type { WritableBackend } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import { createFsBackend, removeAbandonedWrites } from "@sluice/storage-fs";
import type { SluiceHandler } from "@sluice/transport-http";
import {
  createUploads,
  fileInput,
  hostFileInput,
  openAiFileMeta,
  uploadIdInput,
  type CloseUploadsOptions,
  type HostFile,
  type UploadedFile,
  type Uploads,
} from "@sluice/uploads";
import { createFileTransfer } from "@sluice/uploads/experimental";
import { withUploads } from "@sluice/uploads/internal";
import { isSameFile, isTaken } from "../save/save-path.ts";
import { formatBytes } from "../terminal/quantity.ts";
import { uploadLimits } from "./serve-limits.ts";
import type { Users } from "./users.ts";

/** Takes files from clients. */
export interface ServedUploads {
  /** Adds the tool that saves a file, and the methods that bring one. */
  attach<Mcp extends McpServer>(mcp: Mcp): Mcp;
  /** Opens an upload page for a visitor, whose files are saved as those of a client, and gives its URL. */
  readonly openPage: (caller: Caller) => Promise<string>;
  /** Adds the endpoint that takes the bytes. */
  wrap(handler: SluiceHandler): SluiceHandler;
  /** Ends calls in progress, at the latest at the deadline. */
  close(options: CloseUploadsOptions): Promise<void>;
  /** Removes unsaved files, once no call in progress could save them. Never rejects. */
  remove(): Promise<void>;
}

const toolName = "save_file";
/** Origin of errors whose message a caller may read. */
const uploadsOrigin = "uploads";
/** Maximum calls whose outcome is remembered. */
const maxOutcomes = 1_000;
/** Names that are tried for one file. */
const maxNames = 100;

interface UploadTerms {
  readonly maxBytes: number;
  readonly maxStepBytes?: number;
  /** Absent if all callers are one user, which may upload. */
  readonly users?: Pick<Users, "mayUpload"> | undefined;
}

/** Lets clients save files into `folder`, each of at most `maxBytes`. Nothing that is there is replaced. */
export async function openServedUploads(
  sluice: Sluice,
  folder: string,
  { maxBytes, maxStepBytes, users }: UploadTerms,
): Promise<ServedUploads> {
  // the partial file of a killed process; if another one is at work the next start does it
  await removeAbandonedWrites({ root: folder }).catch(() => 0);
  const waitingFolder = await makeWaitingFolder(folder);
  const uploads = createUploads(sluice, {
    storage: createFsBackend({ root: waitingFolder.path, writable: true }),
    scan: "none",
    name: basename(resolve(folder)),
    maxBytes,
    ...definedMembers({ maxStepBytes }),
    limits: uploadLimits(maxBytes, users !== undefined),
  });
  const transfer = createFileTransfer({
    host: uploads.host,
    async reserve(owner, ...terms) {
      if (users && !users.mayUpload(owner))
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          "files: this user may not send files",
        );
      return uploads.reserve(owner, ...terms);
    },
  });
  const target = createFsBackend({ root: folder, writable: true });
  const terms = { maxBytes } as const;
  const outcomes = createRecentEntries<Promise<SaveOutcome>>(maxOutcomes, maxOutcomes);

  /** Saves the file of a call, and removes it from where it waits. */
  async function save({ file: attached, uri, upload_id: uploadId }: SaveInput, call: IncomingCall) {
    const argument = attached ?? uri;
    const answer =
      argument === undefined
        ? await askFor(uploads, call, { maxBytes, uploadId })
        : { file: await uploads.open(argument, terms, call) };
    if (answer.result) return { result: answer.result };
    const { file } = answer;
    const { size, sha256 } = file;
    try {
      const name = await saveAs(target, file);
      const takenNote = name === file.name ? "" : "; the name was taken";
      const text = `Saved as ${name}, ${formatBytes(size)}${takenNote}`;
      const saved = { name, size, sha256 };
      return {
        result: { content: [{ type: "text" as const, text }], structuredContent: saved },
        saved,
      };
    } finally {
      // on a full disk it would take room until the server ends
      await file.remove();
    }
  }

  /** The same for calls that a host repeats, at once or later: by then what the first one names is used up. */
  async function saveOnce(input: SaveInput, { mcp, ctx }: IncomingCall): Promise<SaveOutcome> {
    const { principal } = await sluice.host.identify(callerOf(ctx, mcp));
    if (users && !users.mayUpload(principal))
      return { result: refusal("This user may not send files.") };
    const { uri, upload_id: uploadId } = input;
    const source = uri !== undefined && !uri.startsWith("data:") ? uri : uploadId;
    if (!source) return save(input, { mcp, ctx });
    const key = `${tagOf(principal) ?? ""} ${source}`;
    const before = await outcomes.get(key)?.catch(() => undefined);
    if (before?.saved && (await isThere(target, before.saved))) return before;
    const outcome = save(input, { mcp, ctx });
    outcomes.set(key, outcome, 1);
    return outcome;
  }

  /** A failure of saving goes to the log: no tool waits for it. */
  async function openPage(caller: Caller): Promise<string> {
    const message = "Which files shall be saved on the server?";
    const files = { type: "file", title: "Files", multiple: true, maxFiles: 20, maxBytes } as const;
    const { signal } = visitorsEnd;
    const page = await uploads.askVisitor({ message, fields: { files } }, { caller, signal });
    const saveAll = async (): Promise<void> => {
      const answer = await page.outcome;
      // a file that cannot be saved does not keep the others from it
      for (const file of answer.action === "accept" ? answer.files.files : [])
        try {
          await saveAs(target, file);
        } catch (error) {
          sluice.host.onError(error);
        } finally {
          await file.remove().catch(sluice.host.onError);
        }
    };
    const saves = saveAll().catch((error: unknown) => {
      if (!signal.aborted && !isTimeout(error)) sluice.host.onError(error);
    });
    visitorSaves.add(saves);
    void saves.then(() => visitorSaves.delete(saves));
    return page.url;
  }

  const visitorsEnd = new AbortController();
  /** They end before the folder goes that their files wait in. */
  const visitorSaves = new Set<Promise<void>>();
  return {
    openPage,
    attach(mcp) {
      mcp.registerTool(
        toolName,
        {
          title: "Save a file",
          description:
            "Saves a file of the user in this server's folder. If there is none yet, the result says how the user sends it.",
          inputSchema: toolSchema({
            file: optionalInput(hostFileInput()).describe("The file that the user attached"),
            uri: optionalInput(fileInput(terms)).describe("Of an uploaded file"),
            upload_id: uploadIdInput().describe("From the result upload_required"),
          }),
          annotations: { destructiveHint: false },
          _meta: openAiFileMeta(["file"]),
        },
        async (input, ctx) => {
          try {
            return (await saveOnce(input, { mcp, ctx })).result;
          } catch (error) {
            if (ProtocolError.isInstance(error) || ctx.mcpReq.signal.aborted) throw error;
            const { text, isServerFault } = toolFault(error, uploadsOrigin);
            if (isServerFault) sluice.host.onError(error);
            return refusal(text);
          }
        },
      );
      return transfer.attach(mcp);
    },
    wrap: (handler) => withUploads(handler, uploads),
    async close(options) {
      await uploads.close(options);
      visitorsEnd.abort();
      const late = setTimeout(options?.deadlineMs ?? 0, undefined, { ref: false });
      await Promise.race([Promise.all(visitorSaves), late]);
    },
    // another server of the folder removes the rest
    remove: () => waitingFolder.remove().catch(() => {}),
  };
}

/** True if the user did not answer in time, which is not a fault. */
function isTimeout(error: unknown): boolean {
  return SluiceError.is(error) && error.code === "timeout";
}

interface SaveInput {
  readonly file?: HostFile | undefined;
  readonly uri?: string | undefined;
  readonly upload_id?: string | undefined;
}

interface IncomingCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
}

interface InboxFile {
  readonly name: string;
  readonly size: number;
  readonly sha256: string;
}

interface SaveOutcome {
  readonly result: CallToolResult | InputRequiredResult;
  /** Absent for an answer that asks for the file. */
  readonly saved?: InboxFile;
}

/** Whether a saved file still lies where it was saved. */
async function isThere(target: TargetFolder, { name, size }: InboxFile): Promise<boolean> {
  return (await unlessMissing(target.describe(name)))?.size === size;
}

type GivenFile =
  | { readonly file: UploadedFile; readonly result?: never }
  | { readonly result: CallToolResult | InputRequiredResult };

/** Asks the user for the file: in the client, on the upload page, or by an answer that leads a model there. */
async function askFor(
  uploads: Uploads,
  call: IncomingCall,
  { maxBytes, uploadId }: { readonly maxBytes: number; readonly uploadId: string | undefined },
): Promise<GivenFile> {
  const fields = { file: { type: "file", title: "File", maxBytes } } as const;
  const message = "Which file shall be saved on the server?";
  const outcome = await uploads.ask({ message, fields, uploadId }, call);
  if (outcome.action === "ask") return { result: outcome.result };
  if (outcome.action === "accept") return { file: outcome.files.file };
  return { result: refusal("The user sent no file.") };
}

function refusal(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}

type TargetFolder = WritableBackend;

/** Saves a file under its name, with a number when that is taken. */
async function saveAs(target: TargetFolder, file: UploadedFile): Promise<string> {
  for (let number = 0; number < maxNames; number++) {
    const name = numbered(file.name, number);
    try {
      await write(target, name, file);
      return name;
    } catch (error) {
      if (!isTaken(error)) throw error;
      // a host that repeats a call means the file that it has sent before
      if (await isSameFile(target, name, file)) return name;
    }
  }
  const origin = uploadsOrigin;
  const message = `uploads: too many files are named ${file.name}`;
  throw new SluiceError("already_exists", message, { origin });
}

async function write(target: TargetFolder, name: string, file: UploadedFile): Promise<void> {
  const { size } = file;
  await using writer = await target.write(name, { ifAbsent: true, size });
  const { body } = await file.open();
  for await (const chunk of body) await writer.write(chunk);
  await writer.commit();
}

/** `report.pdf`, `report (1).pdf`, … */
function numbered(name: string, number: number): string {
  if (number === 0) return name;
  const dot = name.lastIndexOf(".");
  const at = dot > 0 ? dot : name.length;
  return `${name.slice(0, at)} (${number})${name.slice(at)}`;
}

/** Where uploads of one process wait. */
interface WaitingFolder {
  readonly path: string;
  /** Removes it with all that is in it. Idempotent. */
  remove(): Promise<void>;
}

// names that begin like this are never listed or opened, even if the folder is served
const prefix = ".sluice-uploads-live-";
const lookEveryMs = 60_000;
/** A folder that stays as it is from look to look so often has no process any more. */
const quietLooks = 10;

/** Makes one inside `folder`. While it is there it shows that it is used, and those of killed processes are removed. */
export async function makeWaitingFolder(folder: string): Promise<WaitingFolder> {
  const path = await mkdtemp(join(folder, prefix));
  const look = createLookout(path);
  let currentLook: Promise<void> | undefined;
  const timer = setInterval(() => {
    currentLook ??= look().finally(() => void (currentLook = undefined));
  }, lookEveryMs);
  timer.unref();
  return {
    path,
    async remove() {
      clearInterval(timer);
      await currentLook;
      await rm(path, { recursive: true, force: true });
    },
  };
}

/**
 * Gives the function that touches a waiting folder, and removes those beside it that no process has touched for
 * this many calls in a row. Neither clocks nor names of processes count: in containers both may be those of another
 * machine, and all that slept wake up at once. The function never rejects: what it missed is for the next call.
 */
export function createLookout(path: string): () => Promise<void> {
  const folder = join(path, "..");
  const ours = basename(path);
  let lastLooks = new Map<string, { readonly mtimeMs: number; readonly looks: number }>();

  async function look(): Promise<void> {
    const now = new Date();
    await utimes(path, now, now);
    const before = lastLooks;
    lastLooks = new Map();
    for (const name of await readdir(folder)) {
      if (!name.startsWith(prefix) || name === ours) continue;
      const info = await lstat(join(folder, name)).catch(() => undefined);
      if (!info?.isDirectory()) continue;
      const { mtimeMs } = info;
      const last = before.get(name);
      const looks = last?.mtimeMs === mtimeMs ? last.looks + 1 : 0;
      if (looks < quietLooks) lastLooks.set(name, { mtimeMs, looks });
      else await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
    }
  }

  return () => look().catch(() => {});
}
