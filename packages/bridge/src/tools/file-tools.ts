import type { JSONRPCMessage, JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import { ensureTrustedOrigins, withStreaming } from "@sluice/client/internal";
import { SluiceError, type FetchLike } from "@sluice/core";
import { ensureStepBytes, EXTENSION_ID } from "@sluice/core/internal";
import { createAwaitedCalls } from "../confine/awaited-calls.ts";
import { HostQuestions, QuestionInResult } from "../confine/consent.ts";
import { NamedLoopback } from "../confine/named-loopback.ts";
import { openSaveFolder } from "../confine/save-folder.ts";
import { openSendFolders, type SendableFile } from "../confine/send-folders.ts";
import { TransferDoctor, transferIn } from "../doctor/transfer-doctor.ts";
import type { BridgeCalls, RelayHooks } from "../messages/hooks.ts";
import {
  isCall,
  membersOf,
  type Answer,
  type Members,
  answerOf,
  answerTo,
} from "../messages/messages.ts";
import { DeclaredTypes } from "../saved/declared-types.ts";
import { openSaving } from "../saved/saved-files.ts";
import type { SpoolLimits } from "../spool/message-spooler.ts";
import {
  releaseAnswer,
  type SpooledString,
  type RemoveString,
  type SpooledStrings,
} from "../spool/spooled-string.ts";
import { rewriteSpooled } from "../spool/rewrite-spooled.ts";
import { spooledFetch, spooledLines } from "../spool/json-spooler.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { Giving, PathQuestions, declareFiles } from "./asked/path-questions.ts";
import { asksForFiles, FileAnswers } from "./asked/file-answers.ts";
import { OwnTools, type ToolName } from "./own-tools.ts";
import type { SaveSettings } from "./save-call.ts";
import { saveForHost } from "./save-resource.ts";
import { listResult, savedResult } from "./saved-list.ts";
import { sendForHost, otherBlocksOf, textOf, type ToolSendSettings } from "./send-file.ts";
import { toolCallOf, toolFault, toolResult, type OwnToolCall } from "./tool-answer.ts";
import type { FileServer, ToolContext } from "./tool-context.ts";
import { findPlaces } from "../spool/found-places.ts";

/** Options of {@link openFileTools}. */
export interface FileToolsOptions {
  readonly server: FileServer;
  /** Folder that files are saved to. It must exist. Default: nothing is saved or spooled. */
  readonly saveTo?: string | undefined;
  /** Folders that files are sent from. They must exist. Default: none is sent. */
  readonly sendFrom?: readonly string[] | undefined;
  /** Longest string of an answer that the host gets itself, in bytes. Default: 64 KiB. */
  readonly inlineBytes?: number | undefined;
  /** Puts longer strings into files of the folder. Default: true. */
  readonly spool?: boolean | undefined;
  /** Largest file to save or to spool. Default: 10 GiB to spool, and to save what has room. */
  readonly maxSaveBytes?: number | undefined;
  /** Maximum bytes of all saved and spooled files. Default: 100 GiB. */
  readonly maxTotalBytes?: number | undefined;
  /**
   * Where it is remembered what was saved, so that other bridges and later ones count, list and clean it: such as
   * `bridgeStateFolder()`. Default: this process alone knows.
   */
  readonly stateFolder?: string | undefined;
  /**
   * How long saved files are kept that no program has changed since, in milliseconds. Default: they are never removed.
   */
  readonly maxSavedAgeMs?: number | undefined;
  /** How long spooled files are kept, in milliseconds. Default: 7 days. */
  readonly maxAgeMs?: number | undefined;
  /** Origins beside the server's own that bytes may come from or go to. Default: none. */
  readonly trustedOrigins?: readonly string[] | undefined;
  /** Maximum bytes of one request of an upload, at least 64 KiB, as for `createFileSender`. Default: all that is left. */
  readonly maxStepBytes?: number | undefined;
  /**
   * Bytes of a file up to which the user is not asked. Default: 1 GiB; a file that goes in a message is asked for at any
   * size.
   */
  readonly agreedBytes?: number | undefined;
}

/** What a bridge with tools for files is made of. */
export interface FileTools {
  /** For {@link HttpUpstreamOptions.wrapFetch}. */
  readonly wrapFetch: (fetch: FetchLike) => FetchLike;
  /** For {@link ProcessOptions.wrapOutput}. */
  readonly wrapOutput: (output: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  /** The upstream to give to `runBridge`. */
  readonly watch: (upstream: Upstream) => Upstream;
  /** The hooks to give to `runBridge`. */
  readonly hooks: RelayHooks;
  /** Removes what is being written. */
  close(): Promise<void>;
}

/**
 * Opens the folders of the tools `save_resource`, `list_saved` and `send_file`, and of large results. Nothing is
 * written or sent but for a call of the host. Rejects with `not_found` for a missing folder, and with
 * `invalid_argument` for an invalid origin.
 */
export async function openFileTools(options: FileToolsOptions): Promise<FileTools> {
  const { saveTo, sendFrom = [], trustedOrigins = [], server } = options;
  const { inlineBytes = 65_536, maxSaveBytes, maxStepBytes } = options;
  ensureTrustedOrigins(trustedOrigins);
  ensureStepBytes("openFileTools", maxStepBytes);
  const spooled = new Map<string, SpooledString>();
  const folder = saveTo === undefined ? undefined : await openSaveFolder(saveTo);
  const maxAgeMs = options.maxAgeMs ?? 7 * 24 * 3_600_000;
  const opened = folder && (await openSaving(folder.root, maxAgeMs, options));
  const { spoolFolder } = opened ?? {};
  const sendFolders = sendFrom.length === 0 ? undefined : await openSendFolders(sendFrom);
  let relay: BridgeCalls | undefined;
  let streams: boolean | undefined;
  const calls = (): BridgeCalls => {
    if (relay) return relay;
    throw new SluiceError("unavailable", "bridge: the host has not begun yet");
  };
  const questions = new HostQuestions(calls);
  const context: ToolContext = {
    calls,
    server,
    trustedOrigins,
    maxStepBytes,
    questions,
    agreedBytes: options.agreedBytes,
    loopback: new NamedLoopback({ serverName: server.name, trustedOrigins, questions }),
    types: new DeclaredTypes(),
    streams: () => streams,
  };
  const answers = sendFolders && new FileAnswers(context);
  const paths = sendFolders && answers && new PathQuestions(context, sendFolders, answers);
  const giving = new Giving();
  // a process has no network in front
  const doctor = server.url && new TransferDoctor(server.url, { trustedOrigins });
  const tools = new Map<ToolName, readonly string[]>();
  if (folder) tools.set("save_resource", [folder.root]).set("list_saved", [folder.root]);
  if (sendFolders) tools.set("send_file", sendFolders.roots);
  const ownTools = new OwnTools(calls, tools);
  const remove = async ({ place }: SpooledString): Promise<void> => spoolFolder?.remove(place);
  const awaited = createAwaitedCalls((id, message) => releaseAnswer(spooled, remove, id, message));
  const limits: SpoolLimits | undefined = spoolFolder && {
    target: spoolFolder,
    spooled,
    inlineBytes,
    maxBytes: maxSaveBytes ?? 10 * 2 ** 30,
    isAwaited: (id) => awaited.has(id),
    hasReader: () => awaited.hasAny(),
  };
  const saveSettings: SaveSettings | undefined = folder &&
    opened && { folder, spooled, maxBytes: maxSaveBytes, ...opened };
  const sendSettings: ToolSendSettings | undefined = sendFolders &&
    answers && { folders: sendFolders, answers, whileGiving: giving.whileGiving };

  async function run(tool: ToolName, call: OwnToolCall): Promise<Members> {
    if (tool === "save_resource" && saveSettings) {
      await saveSettings.saved.clean();
      return savedResult(await saveForHost(call, context, saveSettings));
    }
    if (tool === "list_saved" && saveSettings)
      return listResult(call.args, saveSettings.saved, spoolFolder);
    if (!sendSettings)
      throw new SluiceError("unsupported", "bridge: no folder to send from is named");
    const { result, ...sent } = await sendForHost(call, context, sendSettings);
    const coding = sent.way === "base64" || sent.way === "text" ? `, as ${sent.way}` : "";
    const text = `Sent ${sent.name}, ${sent.size} bytes${coding}, to ${sent.tool}. It said:\n${textOf(result)}`;
    const members = { ...sent, result: membersOf(result["structuredContent"]) };
    return {
      ...toolResult(text, members, otherBlocksOf(result)),
      ...(result["isError"] === true && { isError: true }),
    };
  }

  async function request(message: JSONRPCRequest, signal: AbortSignal) {
    const repeated = await paths?.take(message, signal);
    if (repeated || message.method !== "tools/call") return repeated;
    const tool = await ownTools.find(membersOf(message.params)["name"], signal);
    if (tool === undefined) return undefined;
    const call = toolCallOf(message, calls(), signal);
    const result = await call
      .keepAlive(() => run(tool, call))
      .catch(async (error: unknown) => {
        signal.throwIfAborted();
        if (error instanceof QuestionInResult) return error.result;
        return toolFault(error, await doctor?.causeOf(error, transferIn(tool, call.args), signal));
      });
    const isLegacy = calls().hostRevision === "legacy";
    return { answer: { result: isLegacy ? result : { resultType: "complete", ...result } } };
  }

  function posed({ method }: JSONRPCRequest, response: JSONRPCResponse): JSONRPCResponse {
    if (!paths || !("result" in response)) return response;
    return { ...response, result: paths.pose(method, response.result) };
  }

  async function answer(
    call: JSONRPCRequest,
    serverAnswer: JSONRPCResponse,
  ): Promise<JSONRPCResponse> {
    const response = posed(call, rewriteSpooled(serverAnswer, spooled) as JSONRPCResponse);
    if ("result" in response) context.types.learn(membersOf(response.result));
    if (call.method === "tools/call" && server.kind === "process" && "result" in response)
      context.loopback.learn(membersOf(response.result));
    if (call.method === "tools/list") return ownTools.addTo(call, response);
    if (call.method !== "initialize" && call.method !== "server/discover") return response;
    if (!("result" in response)) return response;
    const result = membersOf(response.result);
    const capabilities = membersOf(result["capabilities"]);
    streams = EXTENSION_ID in membersOf(capabilities["extensions"]);
    return { ...response, result: { ...result, capabilities: { tools: {}, ...capabilities } } };
  }

  async function serverRequest(asked: JSONRPCRequest): Promise<Answer | undefined> {
    const { method, params } = asked;
    if (!answers || !asksForFiles(method, params)) return undefined;
    const file = giving.current();
    return file ? giveFile(answers, params, file) : paths?.answer(asked);
  }

  async function giveFile(
    fileAnswers: FileAnswers,
    params: unknown,
    file: SendableFile,
  ): Promise<Answer> {
    try {
      return { result: await fileAnswers.give(params, file, giving.signal()) };
    } catch (error) {
      giving.fail(error);
      // a server hears nothing of the disk
      return { result: { action: "cancel" } };
    }
  }

  return {
    wrapFetch(fetch) {
      const streaming = withStreaming(answers ? answers.watch(fetch) : fetch, "node");
      const spooling = limits ? spooledFetch(streaming, limits) : streaming;
      return doctor?.watch(spooling) ?? spooling;
    },
    wrapOutput: (output) => (limits ? spooledLines(output, limits) : output),
    watch: (upstream) =>
      awaited.watch(upstream, (message: JSONRPCMessage) =>
        answers && isCall(message) ? declareFiles(message) : message,
      ),
    hooks: {
      start: (given) => void (relay = rewritingCalls(given, spooled, remove)),
      request,
      answer,
      serverRequest,
    },
    close: async () => spoolFolder?.close(),
  };
}

/**
 * The bridge's own calls with words in place of strings that went to files, but for `resources/read`, which is saved. The
 * host hears of files of `tools/call` alone: those of other answers, and of errors, are removed.
 */
function rewritingCalls(
  calls: BridgeCalls,
  spooled: SpooledStrings,
  remove: RemoveString,
): BridgeCalls {
  return {
    get hostRevision() {
      return calls.hostRevision;
    },
    get hostCapabilities() {
      return calls.hostCapabilities;
    },
    async callServer(method, params, signal) {
      const answer = await calls.callServer(method, params, signal);
      if (method === "resources/read" && !answer.error) return answer;
      const places = findPlaces(answer, new Set(spooled.keys()));
      const files = places.map(({ marker }) => spooled.get(marker));
      const hostAnswer = answerOf(rewriteSpooled(answerTo(0, answer), spooled) as JSONRPCResponse);
      const isTold = method === "tools/call" && !answer.error;
      for (const file of isTold ? [] : files) if (file) void remove(file).catch(() => {});
      return hostAnswer;
    },
    notifyHost: (method, params) => calls.notifyHost(method, params),
    askHost: (method, params, signal) => calls.askHost(method, params, signal),
  };
}
