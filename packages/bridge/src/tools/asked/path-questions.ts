import { randomUUID } from "node:crypto";
import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { abortable, defer } from "@sluice/core/internal";
import { formOf, valueIn, type HostQuestion, showsForms } from "../../confine/consent.ts";
import type { SendableFile, SendFolders } from "../../confine/send-folders.ts";
import type { RequestDecision } from "../../messages/hooks.ts";
import { codes, membersOf, type Answer, type Members } from "../../messages/messages.ts";
import { faultWords, quoted, toolFault } from "../tool-answer.ts";
import type { ToolContext } from "../tool-context.ts";
import { asksForFiles, type FileAnswers } from "./file-answers.ts";
import { CAPABILITIES_KEY } from "../../messages/envelope.ts";
import { GIVES_FILE_META, type ToolSendSettings } from "../send-file.ts";

/** Requests for files in one result, as the host holds them. */
interface PosedRequests {
  /** What the server wants to see again, if anything. */
  readonly serverState: unknown;
  /** Params of the requests for files that are not answered yet. */
  readonly open: ReadonlyMap<string, unknown>;
  /** What the server gets for the others. */
  readonly answered: Members;
  readonly tries: number;
}

/**
 * Asks the user for the path of a file that a server wants, in calls that are not `send_file`. A path that leads to no
 * file is asked for again, three times in all.
 */
export class PathQuestions {
  readonly #context: ToolContext;
  readonly #folders: SendFolders;
  readonly #answers: FileAnswers;
  readonly #heldRequests = new Map<string, PosedRequests>();

  constructor(context: ToolContext, folders: SendFolders, answers: FileAnswers) {
    this.#context = context;
    this.#folders = folders;
    this.#answers = answers;
  }

  /** The answer to a request of the server, in revisions up to 2025-11-25; undefined if the next result asks. */
  async answer({ params }: JSONRPCRequest): Promise<Answer | undefined> {
    if (this.#isOfHost()) return undefined;
    if (!this.#context.questions.isPossible())
      return { error: { code: codes.invalidParams, message: cannotAsk } };
    if (this.#context.calls().hostRevision !== "legacy") return undefined;
    const path = await this.#context.questions.askFor(this.#questionFor(params));
    if (typeof path !== "string" || path === "") return { result: { action: "decline" } };
    try {
      return { result: await this.#giveAt(path, params, new AbortController().signal) };
    } catch (error) {
      // a server hears nothing of the disk
      const words = SluiceError.is(error) ? error.code : "internal";
      return {
        error: { code: codes.internal, message: `The file could not be sent (${words})` },
      };
    }
  }

  /** The result of a server, where requests for files have become forms (2026-07-28). Others stay as they are. */
  pose(method: string, result: Members): Members {
    if (result["resultType"] !== "input_required" || this.#isOfHost()) return result;
    const requests = Object.entries(membersOf(result["inputRequests"]));
    const forFiles = requests.filter(([, value]) => isForFiles(value));
    if (forFiles.length === 0) return result;
    if (!this.#context.questions.isPossible())
      return method === "tools/call"
        ? { resultType: "complete", ...toolFault(new Error(cannotAsk)) }
        : result;
    const open = new Map(forFiles.map(([key, value]) => [key, membersOf(value)["params"]]));
    const others = Object.fromEntries(requests.filter(([key]) => !open.has(key)));
    const { requestState: serverState } = result;
    const posed = { serverState, open, answered: {}, tries: 1 };
    return { ...result, ...this.#hold(posed, others, new Map()) };
  }

  /** The repetition of a call whose forms were made here, as the server must get it. Undefined for any other request. */
  async take(request: JSONRPCRequest, signal: AbortSignal): Promise<RequestDecision> {
    const { requestState, inputResponses, ...params } = membersOf(request.params);
    const state = typeof requestState === "string" ? requestState : "";
    const posed = this.#heldRequests.get(state);
    if (!posed) return undefined;
    this.#heldRequests.delete(state);
    const { serverState, open, tries } = posed;
    const responses = membersOf(inputResponses);
    const answered: Record<string, unknown> = { ...responses, ...posed.answered };
    const faults = new Map<string, string>();
    for (const [key, asked] of open) {
      const path = valueIn(responses[key], "path");
      const isPath = typeof path === "string" && path !== "";
      answered[key] = {
        action: membersOf(responses[key])["action"] === "cancel" ? "cancel" : "decline",
      };
      if (!isPath) continue;
      try {
        answered[key] = await this.#giveAt(path, asked, signal);
      } catch (error) {
        signal.throwIfAborted();
        answered[key] = { action: "cancel" };
        faults.set(key, faultWords(error));
      }
    }
    if (faults.size > 0 && tries < maxTries) {
      const again = new Map([...open].filter(([key]) => faults.has(key)));
      const next = { serverState, open: again, answered, tries: tries + 1 };
      return { answer: { result: this.#hold(next, {}, faults) } };
    }
    const answeredParams = { ...params, inputResponses: answered };
    return {
      ...request,
      params:
        serverState === undefined
          ? answeredParams
          : { ...answeredParams, requestState: serverState },
    };
  }

  #isOfHost(): boolean {
    return "binary" in membersOf(this.#context.calls().hostCapabilities["elicitation"]);
  }

  #questionFor(params: unknown, fault?: string): HostQuestion {
    const below = this.#folders.roots.join(" or ");
    const question = `${this.#context.server.name} asks for a file: ${wordsOf(params)}. Which one below ${below}?`;
    const message = fault === undefined ? question : `${fault}. ${question}`;
    return { message, field: "path", schema: { type: "string", title: "Path", maxLength: 1_000 } };
  }

  async #giveAt(path: string, params: unknown, signal: AbortSignal): Promise<Members> {
    return this.#answers.give(params, await this.#folders.find(path), signal);
  }

  /** The result with which the host is asked. */
  #hold(posed: PosedRequests, others: Members, faults: ReadonlyMap<string, string>): Members {
    const state = randomUUID();
    this.#heldRequests.set(state, posed);
    // a host that never comes back must not fill the memory
    for (const oldest of this.#heldRequests.keys())
      if (this.#heldRequests.size > maxHeld) this.#heldRequests.delete(oldest);
    const forms = [...posed.open].map(([key, params]) => {
      const form = formOf(this.#questionFor(params, faults.get(key)));
      return [key, { method: "elicitation/create", params: form }] as const;
    });
    const inputRequests = { ...others, ...Object.fromEntries(forms) };
    return { resultType: "input_required", inputRequests, requestState: state };
  }
}

const maxHeld = 64;
const maxTries = 3;
const cannotAsk =
  "The host cannot pick files: have the model call the tool send_file with a path and this tool";

function isForFiles(value: unknown): boolean {
  const { method, params } = membersOf(value);
  return asksForFiles(method, params);
}

/** The server's words, in a line that cannot be taken for another. */
function wordsOf(params: unknown): string {
  const { message } = membersOf(params);
  return quoted(typeof message === "string" ? message : "");
}

/**
 * Declares that files may be asked for (SEP-1306): in `initialize` where the host can be asked something, in calls of
 * tools where it shows forms (2026-07-28), and in the calls of `send_file`. Other messages stay as they are.
 */
export function declareFiles(message: JSONRPCRequest): JSONRPCRequest {
  const params = membersOf(message.params);
  if (message.method === "initialize") {
    const capabilities = membersOf(params["capabilities"]);
    if (!("elicitation" in capabilities)) return message;
    return { ...message, params: { ...params, capabilities: withFiles(capabilities) } };
  }
  const { [GIVES_FILE_META]: isGiving, ...meta } = membersOf(params["_meta"]);
  const isAsking = message.method === "tools/call" && showsForms(membersOf(meta[CAPABILITIES_KEY]));
  if (isGiving !== true && !isAsking) return message;
  if (CAPABILITIES_KEY in meta) {
    const _meta = { ...meta, [CAPABILITIES_KEY]: withFiles(membersOf(meta[CAPABILITIES_KEY])) };
    return { ...message, params: { ...params, _meta } };
  }
  if (Object.keys(meta).length > 0) return { ...message, params: { ...params, _meta: meta } };
  const { _meta: _dropped, ...rest } = params;
  return { ...message, params: rest };
}

function withFiles(capabilities: Members): Members {
  const elicitation = membersOf(capabilities["elicitation"]);
  // an empty one means forms, which it must go on to mean
  const forms =
    Object.keys(elicitation).length === 0 && "elicitation" in capabilities ? { form: {} } : {};
  const binary = { maxFileSize: Number.MAX_SAFE_INTEGER, supportedMimeTypes: ["*/*"] };
  return { ...capabilities, elicitation: { ...forms, binary, ...elicitation } };
}

/**
 * The file of the `send_file` that is running, with which requests of the server are answered: calls wait for each
 * other.
 */
export class Giving {
  #file: SendableFile | undefined;
  #givenBytes = 0;
  #fault: { readonly error: unknown } | undefined;
  #end = new AbortController();
  #last: Promise<void> = Promise.resolve();

  readonly whileGiving: ToolSendSettings["whileGiving"] = async (next, signal, work) => {
    const before = this.#last;
    const turn = defer<void>();
    this.#last = turn.promise;
    try {
      await abortable(before, signal);
      return await this.#give(next, work);
    } finally {
      // one that gave up must not let the next one in early
      void before.then(() => turn.resolve());
    }
  };

  /** Counts as given. Undefined when none is running. */
  current(): SendableFile | undefined {
    if (this.#file) this.#givenBytes += 1;
    return this.#file;
  }

  /** Aborts with the call. */
  signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Ends the call with an error. */
  fail(error: unknown): void {
    this.#fault = { error };
  }

  async #give<T>(next: SendableFile, work: () => Promise<T>) {
    this.#file = next;
    this.#givenBytes = 0;
    this.#fault = undefined;
    this.#end = new AbortController();
    try {
      const value = await work();
      if (this.#fault) throw (this.#fault as { readonly error: unknown }).error;
      return { value, given: this.#givenBytes };
    } finally {
      this.#file = undefined;
      this.#end.abort(new SluiceError("interrupted", "bridge: the call has ended"));
    }
  }
}
