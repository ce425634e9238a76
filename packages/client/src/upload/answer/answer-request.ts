import { SluiceError } from "@sluice/core";
import { abortable, type AnsweredFile, isAccepted } from "@sluice/core/internal";
import type { SendSettings } from "../send/outgoing-file.ts";
import { sendFiles } from "../send/send-files.ts";
import { httpOrigin } from "../send/upload-error.ts";
import type { FileSource } from "../source/file-source.ts";
import {
  type ParsedFileRequest,
  readFileRequest,
  type ReceivedFileRequest,
  type RequestedField,
} from "./file-request.ts";

/** Asks a person for files. `signal` fires when the answer is no longer wanted. */
export type OnFilesRequested<Picked> = (
  request: ReceivedFileRequest,
  context: { readonly signal: AbortSignal },
) => FilesAnswer<Picked> | Promise<FilesAnswer<Picked>>;

/** How far the files of a request are. */
export interface UploadCount {
  /** Bytes of all files that went out. */
  readonly bytes: number;
  readonly totalBytes: number;
  readonly name: string;
}

/** Answers requests of one connection. */
export interface AnswerSettings<Picked> extends SendSettings {
  readonly maxFileBytes: number;
  readonly onFilesRequested: OnFilesRequested<Picked>;
  readonly onProgress?: ((count: UploadCount) => void) | undefined;
  /** Looks at a picked file without opening it. */
  readonly sourceOf: (picked: Picked) => Promise<FileSource>;
}

/** `result` of an `elicitation/create` (SEP-1306 §3). */
// oxlint-disable-next-line typescript/consistent-type-definitions -- an SDK wants an index signature, which only a type alias has
export type ElicitAnswer = {
  action: "accept" | "decline" | "cancel";
  content?: Record<string, FormValue | AnsweredFile | AnsweredFile[]>;
};

/**
 * Answers one request for files: checks it, asks, checks what was chosen, sends it and names what arrived. Its errors
 * hold no path or file name in their message: a server may see it.
 */
export async function answerRequest<Picked>(
  params: unknown,
  answering: AnswerSettings<Picked>,
  context: { readonly signal: AbortSignal; readonly notify: Notify },
): Promise<ElicitAnswer> {
  const { trust, maxFileBytes, onFilesRequested, sourceOf } = answering;
  const { signal } = context;
  const read = readFileRequest(params, trust, maxFileBytes);
  signal.throwIfAborted();
  const ask = async (): Promise<FilesAnswer<Picked>> => onFilesRequested(read.request, { signal });
  const answer = await abortable(ask(), signal);
  if (answer.action !== "accept") return { action: answer.action };

  const chosen = new Map<string, readonly FileSource[]>();
  for (const [name, picked] of Object.entries(answer.files))
    chosen.set(name, await Promise.all(picked.map(sourceOf)));
  const { values = {} } = answer;
  ensureChosen(read.request, chosen, values);
  const fileContent = await sendAll(read, chosen, answering, context);
  return { action: "accept", content: { ...values, ...fileContent } };
}

async function sendAll<Picked>(
  { request, places, progressToken }: ParsedFileRequest,
  chosen: ReadonlyMap<string, readonly FileSource[]>,
  answering: AnswerSettings<Picked>,
  { signal, notify }: { readonly signal: AbortSignal; readonly notify: Notify },
): Promise<Record<string, AnsweredFile | AnsweredFile[]>> {
  const totalBytes = [...chosen.values()].flat().reduce((sum, { size }) => sum + size, 0);
  const report = createProgressReport(progressToken, totalBytes, notify);
  const content: Record<string, AnsweredFile | AnsweredFile[]> = {};
  let before = 0;
  for (const field of request.fields) {
    const { name } = field;
    const sources = chosen.get(name) ?? [];
    const place = places.get(name);
    if (sources.length === 0 || !place) continue;
    const onSent = (fileBytes: number, { name: file }: FileSource): void => {
      const bytes = before + fileBytes;
      answering.onProgress?.({ bytes, totalBytes, name: file });
      report(bytes, file);
    };
    const { uploadId, target, isList } = place;
    const shipment = { sources, target, signal, onSent };
    const files = await sendFiles(shipment, answering).catch((error: unknown) => {
      throw refusedField(field, error);
    });
    before += files.reduce((sum, { size }) => sum + size, 0);
    const answeredFiles = files.map((file) => ({ ...file, uploadId }));
    content[name] = isList ? answeredFiles : (answeredFiles[0] as AnsweredFile);
  }
  return content;
}

/** A `notifications/progress` (SEP-1306 §5). */
interface ProgressNotification {
  readonly method: "notifications/progress";
  readonly params: {
    readonly progressToken: string | number;
    readonly progress: number;
    readonly total: number;
    readonly message: string;
  };
}

/** Sends a notification to the server. */
export type Notify = (notification: ProgressNotification) => unknown;

/** Reports of one request are at most this many. */
const maxReports = 100;

/**
 * Reports progress to the server: at most a hundred times, never less than before (MCP progress must grow), and not
 * after a report failed.
 */
function createProgressReport(
  progressToken: string | number | undefined,
  total: number,
  notify: Notify,
): (progress: number, name: string) => void {
  if (progressToken === undefined) return () => {};
  const step = Math.max(1, Math.ceil(total / maxReports));
  let last = 0;
  let isHeard = true;
  return (progress, name) => {
    const isDue = progress >= last + step || (progress === total && last < total);
    if (!isHeard || !isDue) return;
    last = progress;
    const params = { progressToken, progress, total, message: `Uploading ${name}` };
    void (async () => notify({ method: "notifications/progress", params }))().catch(() => {
      isHeard = false;
    });
  };
}

/** A value of an ordinary form field. */
export type FormValue = string | number | boolean | readonly string[];

/** The user's answer to a request for files. */
export type FilesAnswer<Picked> =
  | {
      readonly action: "accept";
      /** Files by field. */
      readonly files: Readonly<Record<string, readonly Picked[]>>;
      /** Values of the other fields, by name. */
      readonly values?: Readonly<Record<string, FormValue>>;
    }
  | { readonly action: "decline" }
  | { readonly action: "cancel" };

/**
 * Throws unless the files are what the request asks for: `invalid_argument` for a field that does not
 * exist, is left out or has too many, `too_large`, and `unsupported` for a type that the field does
 * not accept. The message names fields, never files: a server may see it.
 */
function ensureChosen(
  { fields, values, requiredValues }: ReceivedFileRequest,
  files: ReadonlyMap<string, readonly FileSource[]>,
  given: Readonly<Record<string, FormValue>>,
): void {
  const fieldNames = new Set(fields.map(({ name }) => name));
  for (const name of files.keys())
    if (!fieldNames.has(name)) throw wrong(name, "the server asked for no such file");
  for (const field of fields) ensureField(field, files.get(field.name) ?? []);
  for (const name of Object.keys(given))
    if (!Object.hasOwn(values, name)) throw wrong(name, "the server asked for no such value");
  for (const name of requiredValues)
    if (!Object.hasOwn(given, name)) throw wrong(name, "the server needs a value");
}

function ensureField(field: RequestedField, chosen: readonly FileSource[]): void {
  const { name, required, maxFiles, maxBytes, accept } = field;
  if (required && chosen.length === 0) throw wrong(name, "the server needs a file");
  if (chosen.length > maxFiles)
    throw wrong(name, maxFiles === 1 ? "one file only" : `at most ${maxFiles} files`);
  for (const file of chosen) {
    if (file.size > maxBytes)
      throw new SluiceError(
        "too_large",
        `client: field ${JSON.stringify(name)}: a file of more than ${maxBytes} bytes; choose a smaller one`,
        { size: file.size, cause: file.name },
      );
    if (!isAccepted(file, accept))
      throw new SluiceError(
        "unsupported",
        `client: field ${JSON.stringify(name)}: a file of another type than ${accept.join(", ")}`,
        { cause: file.name },
      );
  }
}

/** A response that refused a file, with the field that it is for and what the field takes. The server's words stay out. */
function refusedField({ name, accept, maxBytes }: RequestedField, error: unknown): unknown {
  if (!SluiceError.is(error) || error.origin !== httpOrigin) return error;
  const { code, message, retryAfterMs } = error;
  const terms =
    code === "unsupported" && accept.length > 0
      ? `; it takes ${accept.join(", ")}`
      : code === "too_large"
        ? `; it takes at most ${maxBytes} bytes`
        : "";
  const text = message.replace(/^client: /, `client: field ${JSON.stringify(name)}: `) + terms;
  return new SluiceError(code, text, { cause: error, origin: httpOrigin, retryAfterMs });
}

function wrong(name: string, why: string): SluiceError {
  return new SluiceError("invalid_argument", `client: field ${JSON.stringify(name)}: ${why}`);
}
