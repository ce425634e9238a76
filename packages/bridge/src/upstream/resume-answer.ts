import { SluiceError, type FetchLike } from "@sluice/core";
import { isLoopbackHost } from "@sluice/core/internal";
import { sentMessage } from "./bounded-fetch.ts";
import { SendError, sendFaultOf } from "./send-fault.ts";

/** Why the rest of a response was not given. */
type ResumeFault = "refused" | "stopped" | "away";

/** How long it is asked for, in milliseconds, from the first refusal. */
const resumeMs: Readonly<Record<ResumeFault, number>> = {
  // a status of the request: another try gets the same
  refused: 0,
  // nothing listens on this machine any more: a program that restarts at once may still have the events
  stopped: 3_000,
  // a restart elsewhere, a proxy, a network
  away: 25_000,
};

/** Statuses of 400 to 499 that say something of the caller or the moment, not of the events. */
const passingStatuses: ReadonlySet<number> = new Set([401, 403, 408, 425, 429]);

/**
 * Sends a GET for the rest of a stream. For a call, it ends the SDK's retries with 405 once that cannot come, and says at
 * the first failure how long they go on: it throws `unavailable` with a line for people.
 */
export async function resumeAnswer(
  fetch: FetchLike,
  input: string | URL,
  init: RequestInit,
): Promise<Response> {
  const sendState = sentMessage.getStore();
  // the stream of the session has no call that waits for it
  if (!sendState?.fail) return fetch(input, init);
  const url = new URL(input);
  const outcome = await fetch(input, init).catch((error: unknown) => ({ error }));
  if (init.signal?.aborted && "error" in outcome) throw outcome.error;
  const fault = faultOf(url, outcome);
  if (fault === undefined) {
    sendState.awaySince = undefined;
    return outcome as Response;
  }
  const { awaySince = performance.now() } = sendState;
  const isFirst = sendState.awaySince === undefined;
  sendState.awaySince = awaySince;
  if (performance.now() - awaySince >= resumeMs[fault]) return noStream(outcome);
  if (isFirst && !isOfCaller(outcome)) throw await unreachable(url, outcome, resumeMs[fault]);
  if ("error" in outcome) throw outcome.error;
  return outcome;
}

/** What a GET came to. */
type ResumeOutcome = Response | { readonly error: unknown };

function faultOf({ hostname }: URL, outcome: ResumeOutcome): ResumeFault | undefined {
  if ("error" in outcome) {
    const { kind } = sendFaultOf(outcome.error, false);
    return kind === "unreached" && isLoopbackHost(hostname) ? "stopped" : "away";
  }
  const { status } = outcome;
  if (status >= 500 || passingStatuses.has(status)) return "away";
  return status >= 400 ? "refused" : undefined;
}

/** The SDK signs in. */
function isOfCaller(outcome: ResumeOutcome): boolean {
  return "status" in outcome && (outcome.status === 401 || outcome.status === 403);
}

/** The SDK ends the stream, and with it the call. */
async function noStream(outcome: ResumeOutcome): Promise<Response> {
  if ("body" in outcome) await outcome.body?.cancel();
  return new Response(null, { status: 405 });
}

async function unreachable(url: URL, outcome: ResumeOutcome, waitMs: number): Promise<SluiceError> {
  const reason = "error" in outcome ? reasonOf(outcome.error) : `HTTP ${outcome.status}`;
  if ("body" in outcome) await outcome.body?.cancel();
  const wait = `waiting up to ${waitMs / 1_000} s for the rest of a response`;
  return new SluiceError(
    "unavailable",
    `bridge: ${url.origin} is unreachable (${reason}): ${wait}`,
  );
}

function reasonOf(error: unknown): string {
  return new SendError(sendFaultOf(error, false)).message;
}
