import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { backgroundClock, retryWords } from "@sluice/core/internal";
import type { BridgeCalls } from "../messages/hooks.ts";
import { membersOf, type Members } from "../messages/messages.ts";
import { wordsOf } from "../messages/error-words.ts";

/** A call of one of the bridge's tools. */
export interface OwnToolCall {
  readonly request: JSONRPCRequest;
  readonly args: Members;
  readonly signal: AbortSignal;
  /** Tells the host how many bytes are done, where it wants to know. */
  readonly progress: (done: number, total: number | undefined) => void;
  /** Does the work of the call. A host that wants to know hears every 15 s that it goes on, as while its user is asked. */
  readonly keepAlive: <T>(work: () => Promise<T>) => Promise<T>;
}

/** The call in a request of the host. */
export function toolCallOf(
  request: JSONRPCRequest,
  calls: BridgeCalls,
  signal: AbortSignal,
): OwnToolCall {
  const params = membersOf(request.params);
  const { progressToken } = membersOf(params["_meta"]);
  let notedAt = -Infinity;
  let noted = 0;
  function note(done: number, more: Members): void {
    notedAt = performance.now();
    // progress must grow
    noted = Math.max(done, noted + minProgress);
    calls.notifyHost("notifications/progress", { progressToken, progress: noted, ...more });
  }
  return {
    request,
    args: namedArguments(params["arguments"]),
    signal,
    progress(done, total) {
      if (progressToken === undefined || performance.now() - notedAt < everyMs) return;
      note(done, total === undefined ? {} : { total });
    },
    async keepAlive(work) {
      if (progressToken === undefined) return work();
      let cancel = backgroundClock.schedule(goOn, aliveMs);
      function goOn(): void {
        cancel = backgroundClock.schedule(goOn, aliveMs);
        if (performance.now() - notedAt >= everyMs) note(noted, { message: "The call goes on" });
      }
      try {
        return await work();
      } finally {
        cancel();
      }
    },
  };
}

/** Hosts that fill in what their model has not named send `null` or `""`: both are absent. */
function namedArguments(given: unknown): Members {
  const entries = Object.entries(membersOf(given)).filter(([, value]) => (value ?? "") !== "");
  return Object.fromEntries(entries);
}

const everyMs = 500;
/** Some hosts give up after 30 s without a word. */
const aliveMs = 15_000;
/** Less than a byte, even after hours. */
const minProgress = 2 ** -20;

/** The text argument of a name. Throws `invalid_argument` if it is missing or not text. */
export function textArgument(args: Members, name: string): string {
  const value = args[name];
  if (typeof value === "string" && value !== "") return value;
  throw new SluiceError("invalid_argument", `bridge: pass ${name}`);
}

/** The same where it may be left out. */
export function optionalText(args: Members, name: string): string | undefined {
  return args[name] === undefined ? undefined : textArgument(args, name);
}

/** A result of a tool. */
export function toolResult(
  text: string,
  structuredContent: Members,
  blocks: readonly Members[] = [],
): Members {
  return { content: [{ type: "text", text }, ...blocks], structuredContent };
}

/** The result of a tool that failed. `cause`: what seems to be behind it, as a sentence. */
export function toolFault(error: unknown, cause?: string): Members {
  const fault = faultWords(error);
  const isTold = cause === undefined || fault.includes(cause.replace(/\.$/, ""));
  const text = isTold ? fault : `${fault.replace(/\.$/, "")}; probable cause: ${cause}`;
  return { content: [{ type: "text", text }], isError: true };
}

/** What went wrong, in words for a model or its user. */
export function faultWords(error: unknown): string {
  const words = wordsOf(error);
  // the client's advice is for programmers; the reader of this has started a command
  if (isForeign(error))
    return `${words.slice(words.indexOf(" ") + 1, words.lastIndexOf(";"))}; ${trustAdvice}`;
  const wait =
    SluiceError.is(error) && error.retryAfterMs !== undefined ? `; ${retryWords(error)}` : "";
  return words.slice(0, longestFault) + wait;
}

/** Origin of the client's error about an address of an origin that is not trusted. */
const foreignAddress = "foreign address";

/** True for the client's refusal of such an address. */
function isForeign(error: unknown): boolean {
  return SluiceError.is(error) && error.origin === foreignAddress;
}

/** What to do about such an address. */
const trustAdvice = "a user who trusts that origin starts the bridge with --trust and the origin.";

const longestFault = 1_000;

/** Words of another party in a question: what is seen, in quotes that it cannot end. */
export function quoted(words: string): string {
  const visible = words.replace(/[^\p{L}\p{N}\p{P}\p{S}\p{Zs}]/gu, " ").replaceAll('"', "'");
  return `"${Array.from(visible).slice(0, longestQuoted).join("")}"`;
}

const longestQuoted = 300;
