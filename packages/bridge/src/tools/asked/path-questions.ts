import { randomUUID } from "node:crypto";
import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { abortable } from "@sluice/core/async";
import { formOf, valueIn, type HostQuestion, showsForms } from "../../confine/consent.ts";
import type { SendableFile, SendFolders } from "../../confine/send-folders.ts";
import type { RequestDecision } from "../../messages/hooks.ts";
import { codes, membersOf, type Answer, type Members } from "../../messages/messages.ts";
import { faultWords, quoted, toolFault } from "../tool-answer.ts";
import type { ToolContext } from "../tool-context.ts";
import { asksForFiles, type FileAnswers } from "./file-answers.ts";
import { defer } from "../../messages/deferred.ts";
import { CAPABILITIES_KEY } from "../../messages/envelope.ts";
import { GIVES_FILE_META, type ToolSendSettings } from "../send-file.ts";

/** Asks the user for the path of a file that a server wants, in calls that are not `send_file`. */
interface PathQuestions {
  /** The answer to a request of the server, in revisions up to 2025-11-25; undefined if the next result asks. */
  answer(request: JSONRPCRequest): Promise<Answer | undefined>;
  /** The result of a server, where requests for files have become forms (2026-07-28). Others stay as they are. */
  pose(method: string, result: Members): Members;
  /** The repetition of a call whose forms were made here, as the server must get it. Undefined for any other request. */
  take(request: JSONRPCRequest, signal: AbortSignal): Promise<RequestDecision>;
}

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

/** Makes the questions of one bridge. A path that leads to no file is asked for again, three times in all. */
export function createPathQuestions(
  context: ToolContext,
  folders: SendFolders,
  answers: FileAnswers,
): PathQuestions {
  const { server, questions, calls } = context;
  const heldRequests = new Map<string, PosedRequests>();

  const isOfHost = (): boolean => "binary" in membersOf(calls().hostCapabilities["elicitation"]);

  function questionFor(params: unknown, fault?: string): HostQuestion {
    const below = folders.roots.join(" or ");
    const question = `${server.name} asks for a file: ${wordsOf(params)}. Which one below ${below}?`;
    const message = fault === undefined ? question : `${fault}. ${question}`;
    return { message, field: "path", schema: { type: "string", title: "Path", maxLength: 1_000 } };
  }

  async function giveAt(path: string, params: unknown, signal: AbortSignal): Promise<Members> {
    return answers.give(params, await folders.find(path), signal);
  }

  /** The result with which the host is asked. */
  function hold(
    posed: PosedRequests,
    others: Members,
    faults: ReadonlyMap<string, string>,
  ): Members {
    const state = randomUUID();
    heldRequests.set(state, posed);
    // a host that never comes back must not fill the memory
    for (const oldest of heldRequests.keys())
      if (heldRequests.size > maxHeld) heldRequests.delete(oldest);
    const forms = [...posed.open].map(([key, params]) => {
      const form = formOf(questionFor(params, faults.get(key)));
      return [key, { method: "elicitation/create", params: form }] as const;
    });
    const inputRequests = { ...others, ...Object.fromEntries(forms) };
    return { resultType: "input_required", inputRequests, requestState: state };
  }

  return {
    async answer({ params }) {
      if (isOfHost()) return undefined;
      if (!questions.isPossible())
        return { error: { code: codes.invalidParams, message: cannotAsk } };
      if (calls().hostRevision !== "legacy") return undefined;
      const path = await questions.askFor(questionFor(params));
      if (typeof path !== "string" || path === "") return { result: { action: "decline" } };
      try {
        return { result: await giveAt(path, params, new AbortController().signal) };
      } catch (error) {
        // a server hears nothing of the disk
        const words = SluiceError.is(error) ? error.code : "internal";
        return {
          error: { code: codes.internal, message: `The file could not be sent (${words})` },
        };
      }
    },

    pose(method, result) {
      if (result["resultType"] !== "input_required" || isOfHost()) return result;
      const requests = Object.entries(membersOf(result["inputRequests"]));
      const forFiles = requests.filter(([, value]) => isForFiles(value));
      if (forFiles.length === 0) return result;
      if (!questions.isPossible())
        return method === "tools/call"
          ? { resultType: "complete", ...toolFault(new Error(cannotAsk)) }
          : result;
      const open = new Map(forFiles.map(([key, value]) => [key, membersOf(value)["params"]]));
      const others = Object.fromEntries(requests.filter(([key]) => !open.has(key)));
      const { requestState: serverState } = result;
      const posed = { serverState, open, answered: {}, tries: 1 };
      return { ...result, ...hold(posed, others, new Map()) };
    },

    async take(request, signal) {
      const { requestState, inputResponses, ...params } = membersOf(request.params);
      const state = typeof requestState === "string" ? requestState : "";
      const posed = heldRequests.get(state);
      if (!posed) return undefined;
      heldRequests.delete(state);
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
          answered[key] = await giveAt(path, asked, signal);
        } catch (error) {
          signal.throwIfAborted();
          answered[key] = { action: "cancel" };
          faults.set(key, faultWords(error));
        }
      }
      if (faults.size > 0 && tries < maxTries) {
        const again = new Map([...open].filter(([key]) => faults.has(key)));
        const next = { serverState, open: again, answered, tries: tries + 1 };
        return { answer: { result: hold(next, {}, faults) } };
      }
      const answeredParams = { ...params, inputResponses: answered };
      return {
        ...request,
        params:
          serverState === undefined
            ? answeredParams
            : { ...answeredParams, requestState: serverState },
      };
    },
  };
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

/** The file of the `send_file` that is running. */
interface Giving extends Pick<ToolSendSettings, "whileGiving"> {
  /** Counts as given. Undefined when none is running. */
  current(): SendableFile | undefined;
  /** Aborts with the call. */
  signal(): AbortSignal;
  /** Ends the call with an error. */
  fail(error: unknown): void;
}

/** The one file that requests of the server are answered with: calls wait for each other. */
export function createGiving(): Giving {
  let file: SendableFile | undefined;
  let givenBytes = 0;
  let fault: { readonly error: unknown } | undefined;
  let end = new AbortController();
  let last: Promise<void> = Promise.resolve();

  async function give<T>(next: SendableFile, work: () => Promise<T>) {
    file = next;
    givenBytes = 0;
    fault = undefined;
    end = new AbortController();
    try {
      const value = await work();
      if (fault) throw (fault as { readonly error: unknown }).error;
      return { value, given: givenBytes };
    } finally {
      file = undefined;
      end.abort(new SluiceError("interrupted", "bridge: the call has ended"));
    }
  }

  return {
    current() {
      if (file) givenBytes += 1;
      return file;
    },
    signal: () => end.signal,
    fail: (error) => void (fault = { error }),
    async whileGiving(next, signal, work) {
      const before = last;
      const turn = defer<void>();
      last = turn.promise;
      try {
        await abortable(before, signal);
        return await give(next, work);
      } finally {
        // one that gave up must not let the next one in early
        void before.then(() => turn.resolve());
      }
    },
  };
}
