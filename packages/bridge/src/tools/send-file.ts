import type { RequestingClient } from "@sluice/client";
import { typeOfName } from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import { definedMembers, encodeBase64, UPLOADS_EXTENSION_ID } from "@sluice/core/internal";
import { readSendable, type SendableFile, type SendFolders } from "../confine/send-folders.ts";
import { membersOf, type Members, isMembers } from "../messages/messages.ts";
import { asksForFiles, type FileAnswers } from "./asked/file-answers.ts";
import { callServer, createServerClient, listTools } from "./server-client.ts";
import { optionalText, quoted, textArgument, type OwnToolCall } from "./tool-answer.ts";
import { withValueAt } from "./argument-slots.ts";
import { chooseTool, readGivenAs, type Taker } from "./choose-tool.ts";
import { askAboveBytes, yesAdvice, type ToolContext } from "./tool-context.ts";
import { type UploadAddress, uploadAddressIn } from "./upload-address.ts";

/** How a file reached a tool: by a URI in its argument, because it asked, at an address it gave, or as its argument. */
type SendWay = "uri" | "asked" | "url" | "base64" | "text";

/** A file that a tool of the server got. */
interface SentToTool {
  readonly name: string;
  readonly size: number;
  readonly tool: string;
  readonly way: SendWay;
  /** What the tool says. */
  readonly result: Members;
}

/** What sending needs. */
export interface ToolSendSettings {
  readonly folders: SendFolders;
  readonly answers: FileAnswers;
  /** Runs `work` while requests of the server for files are answered with `file`. Tells how many were. */
  readonly whileGiving: <T>(
    file: SendableFile,
    signal: AbortSignal,
    work: () => Promise<T>,
  ) => Promise<{ value: T; given: number }>;
}

/** Member of `_meta` by which the connection declares files for this call. It does not go over the wire. */
export const GIVES_FILE_META = "dev.sluice/gives-file";

/** Sends the file that a call names, in the way that the tool of the server has. */
export async function sendForHost(
  call: OwnToolCall,
  context: ToolContext,
  settings: ToolSendSettings,
): Promise<SentToTool> {
  const { args, signal } = call;
  const file = await settings.folders.find(textArgument(args, "path"));
  const tools = await listTools(context.calls(), signal);
  const others = otherArguments(args["arguments"]);
  const taker = chooseTool(tools, {
    tool: optionalText(args, "tool"),
    argument: optionalText(args, "argument"),
    as: readGivenAs(args),
    others,
  });
  const send: FileSend = { call, context, settings, file, taker, others };
  if (taker.kind === "base64" || taker.kind === "text") return sendInArgument(send, taker);
  await ensureAgreed(send, askAboveBytes);
  return taker.kind === "uri" ? sendByUri(send, taker) : sendWhenAsked(send);
}

/** The arguments beside the file: JSON text, or the object itself. */
function otherArguments(given: unknown): Members {
  const others = typeof given === "string" ? parsedJson(given) : (given ?? {});
  if (isMembers(others)) return others;
  throw new SluiceError("invalid_argument", 'bridge: pass arguments as JSON, such as {"name":"a"}');
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface FileSend {
  readonly call: OwnToolCall;
  readonly context: ToolContext;
  readonly settings: ToolSendSettings;
  readonly file: SendableFile;
  readonly taker: Taker;
  readonly others: Members;
}

type ArgumentTaker = Exclude<Taker, { readonly kind: "asks" }>;

/** SEP-2631: the server keeps the file under a URI, which the argument takes. */
async function sendByUri(send: FileSend, { path }: ArgumentTaker): Promise<SentToTool> {
  const { call, context, settings, file, others } = send;
  const { signal } = call;
  const authorized = askedOnce(createServerClient(context.calls(), "http"));
  const upload = (address: unknown) =>
    settings.answers
      .senderTo(address)
      .upload(authorized.client, file, { signal, onProgress: progressOf(send) });
  // a process names its address in the answer only: the first try ends there, before any byte
  const sentFile = await upload(undefined).catch((error: unknown) => {
    if (context.server.kind === "http" || !isUntrusted(error)) throw error;
    return upload(membersOf(membersOf(authorized.answer())["upload"])["url"]);
  });
  const result = await callTool(send, withValueAt(others, path, sentFile.uri), {});
  return sentAs(send, "uri", result);
}

/** A client that asks the server once: a second try gets the first answer, so that it authorizes one file. */
function askedOnce(client: RequestingClient): {
  readonly client: RequestingClient;
  readonly answer: () => unknown;
} {
  let answer: unknown;
  const request: RequestingClient["request"] = async (asked, schema, options) => {
    answer ??= await client.request(asked, schema, options);
    return answer;
  };
  return { client: { request }, answer: () => answer };
}

function isUntrusted(error: unknown): boolean {
  return SluiceError.is(error) && error.code === "untrusted";
}

/** The tool asks the client for the file, or answers with an address for it. */
async function sendWhenAsked(send: FileSend): Promise<SentToTool> {
  const { settings, file, others, taker } = send;
  const { value, given } = await settings.whileGiving(file, send.call.signal, () =>
    callAsking(send, others),
  );
  const { result } = value;
  if (given + value.given > 0) return sentAs(send, "asked", result);
  const address = uploadAddressIn(result);
  if (!address)
    throw new SluiceError(
      "unsupported",
      `bridge: ${taker.tool} asked for no file and named no address for one, so it got none. It said: ${textOf(result)}`,
    );
  await sendTo(address, send);
  const { uploadId } = address;
  if (uploadId === undefined) return sentAs(send, "url", result);
  return sentAs(send, "url", await callTool(send, { ...others, upload_id: uploadId }, {}));
}

/** Calls the tool and answers what it asks for in its results (2026-07-28). */
async function callAsking(
  send: FileSend,
  args: Members,
): Promise<{ readonly result: Members; readonly given: number }> {
  const { call, settings, file } = send;
  const meta = { _meta: { [GIVES_FILE_META]: true } };
  let result = await callTool(send, args, meta);
  let answeredCount = 0;
  for (let round = 0; result["resultType"] === "input_required"; round++) {
    const inputResponses: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(membersOf(result["inputRequests"]))) {
      const { method, params } = membersOf(value);
      if (round === maxRounds || !asksForFiles(method, params))
        throw new SluiceError(
          "unsupported",
          "bridge: the tool asks for more than a file; call it yourself",
        );
      inputResponses[key] = await settings.answers.give(params, file, call.signal);
      answeredCount += 1;
    }
    const { requestState } = result;
    result = await callTool(send, args, { ...meta, inputResponses, requestState });
  }
  return { result, given: answeredCount };
}

const maxRounds = 5;

/** Sends the file to an address, as to one that `files/authorizeUpload` names. */
async function sendTo(address: UploadAddress, send: FileSend): Promise<void> {
  const { call, context, settings, file } = send;
  const { url, method, headers, fields } = address;
  if (context.server.kind === "process") await context.loopback.endpointFor(url, call);
  if (address.maxBytes !== undefined && file.size > address.maxBytes)
    throw new SluiceError("too_large", `bridge: the server takes ${address.maxBytes} bytes`);
  const upload = {
    transport: "https",
    method,
    url,
    ...definedMembers({ headers, multipart: fields && { fileField: "file", fields } }),
    _meta: { [UPLOADS_EXTENSION_ID]: { auth: "self" } },
  };
  const client = { request: async () => ({ file: { uri: url }, upload }) };
  const sender = settings.answers.senderTo(url);
  await sender.upload(client, file, { signal: call.signal, onProgress: progressOf(send) });
}

/** The file in the message itself: small ones, and never without the user's yes. */
async function sendInArgument(send: FileSend, taker: ArgumentTaker): Promise<SentToTool> {
  const { file, others } = send;
  if (file.size > maxInlineBytes)
    throw new SluiceError(
      "too_large",
      `bridge: ${taker.tool} takes the file in its argument, which may have ${maxInlineBytes} bytes`,
    );
  await ensureAgreed(send, -1);
  const bytes = await readSendable(file);
  if (!bytes)
    throw new SluiceError("precondition_failed", "bridge: the file has changed; send it again");
  const start = taker.isDataUri ? `data:${typeOfName(file.name)};base64,` : "";
  const value = taker.kind === "text" ? utf8TextOf(bytes) : start + encodeBase64(bytes);
  const result = await callTool(send, withValueAt(others, taker.path, value), {});
  return sentAs(send, taker.kind, result);
}

/** UTF-8 without its byte order mark. */
function utf8TextOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SluiceError(
      "invalid_argument",
      "bridge: the file is not text in UTF-8; nothing was sent",
    );
  }
}

const maxInlineBytes = 4 * 2 ** 20;

/** Asks the user about a file of more than `unasked` bytes, or more than the user said beforehand. */
async function ensureAgreed(
  { call, context, file, taker }: FileSend,
  unasked: number,
): Promise<void> {
  if (file.size <= (context.agreedBytes ?? unasked)) return;
  const to = `${context.server.name} (tool ${quoted(taker.tool)})`;
  const isInMessage = taker.kind === "base64" || taker.kind === "text";
  const coding = isInMessage ? `, as ${taker.kind} in a message` : "";
  const message = `Send ${JSON.stringify(file.path)}, ${file.size} bytes${coding}, to ${to}?`;
  const options = { signal: call.signal, advice: yesAdvice };
  if (await context.questions.agree(call.request, message, options)) return;
  throw new SluiceError("permission_denied", "bridge: the user declined; nothing was sent");
}

async function callTool(
  { call, context, taker }: FileSend,
  args: unknown,
  more: Members,
): Promise<Members> {
  const params = { name: taker.tool, arguments: args, ...more };
  const result = await callServer(context.calls(), "tools/call", params, call.signal);
  context.loopback.learn(result);
  return result;
}

function progressOf({ call }: FileSend): (count: { bytes: number; totalBytes: number }) => void {
  return ({ bytes, totalBytes }) => call.progress(bytes, totalBytes);
}

function sentAs({ file, taker }: FileSend, way: SendWay, result: Members): SentToTool {
  return { name: file.name, size: file.size, tool: taker.tool, way, result };
}

/** The beginning of what a tool says. */
export function textOf({ content }: Members): string {
  const blocks = Array.isArray(content) ? (content as unknown[]).map(membersOf) : [];
  return blocks
    .flatMap(({ text }) => (typeof text === "string" ? [text] : []))
    .join("\n")
    .slice(0, longestWords);
}

const longestWords = 4_000;

/** What a tool gives beside text, such as pictures and links: up to 64 KiB as JSON, of more nothing. */
export function otherBlocksOf({ content }: Members): readonly Members[] {
  const blocks = Array.isArray(content) ? (content as unknown[]).map(membersOf) : [];
  const others = blocks.filter(({ type }) => type !== "text");
  return JSON.stringify(others).length > longestBlocks ? [] : others;
}

const longestBlocks = 65_536;
