import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  isEventStream,
  onAbort,
  pullStream,
  type SessionEntry,
  type SessionTable,
} from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import { notesOf, problemOf, tagOf } from "@sluice/server/internal";
import { errorResponse, toResponse } from "../endpoint/web-response.ts";
import { headerReader } from "../endpoint/web-request.ts";

/** The caller of a request: the holder of its sessions, and the owner of the share that they count in. */
export type SessionCaller = Pick<SessionEntry<unknown>, "holder" | "owner">;

const anonymous: SessionCaller = { holder: "", owner: "" };

/** Identifies the caller of a request, by its credentials only: a client can send any session id. */
export async function sessionCallerOf(
  { host }: Sluice,
  request: Request,
  authInfo: McpHandlerRequestOptions["authInfo"],
): Promise<SessionCaller> {
  try {
    const identity = await host.identify({
      authInfo,
      address: notesOf(request).address,
      header: headerReader(request),
    });
    return { holder: tagOf(identity.principal) ?? "", owner: identity.owner ?? "" };
  } catch (error) {
    if (SluiceError.is(error) && error.code === "unauthenticated") return anonymous;
    throw error;
  }
}

/** Whether a session may be opened or ended now. */
interface SessionAdmission {
  /** The response if there were too many. */
  readonly refusal?: Response;
  /** The share that the memory of the session counts in; empty for callers without verified credentials. */
  readonly owner: string;
}

/**
 * Counts the opening or the end of a session in `rates.requests`.
 * A caller that cannot be identified counts as anonymous: the handler decides what it may do.
 */
export async function admitSessionRequest(
  sluice: Sluice,
  request: Request,
  authInfo: McpHandlerRequestOptions["authInfo"],
): Promise<SessionAdmission> {
  const caller = await sessionCallerOf(sluice, request, authInfo).catch(() => anonymous);
  const { holder, owner } = caller;
  try {
    await sluice.host.usage.admit(holder || undefined, "request");
    return { owner };
  } catch (error) {
    if (SluiceError.is(error)) return { owner, refusal: toResponse(problemOf(error)) };
    throw error;
  }
}

/** True when a caller may use a session: its own, or one that was opened without credentials. */
export function mayUse({ holder }: Pick<SessionCaller, "holder">, caller: SessionCaller): boolean {
  return holder === caller.holder || holder === "";
}

/** The entry of a session for a caller: a client that has signed in takes its session along. Undefined if it may not use it. */
export function entryFor<Live>(
  table: SessionTable<Live>,
  entry: SessionEntry<Live>,
  caller: SessionCaller,
): SessionEntry<Live> | undefined {
  if (!mayUse(entry, caller)) return undefined;
  return entry.holder === caller.holder ? entry : table.claim(entry, caller);
}

/** The same for a session that never was, has ended, or is another principal's. */
export function sessionNotFound(): Response {
  return refuseSession(404, -32_001, "Session not found");
}

/** The response where there is no room for another session. */
export function sessionsFull(): Response {
  return refuseSession(503, -32_000, "Too many sessions; try again later", { "retry-after": "10" });
}

/** Words and codes are those of the SDK's transport. */
export function refuseSession(
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
): Response {
  const fields = { "cache-control": "no-store", ...headers };
  return errorResponse(status, { code, message }, { headers: fields });
}

/**
 * A response that calls `onEnd` once when its body was read, cancelled or broken; at once if it is not a stream of
 * events. A stream of events ends when `signal` aborts.
 */
export function watchEnd(response: Response, onEnd: () => void, signal?: AbortSignal): Response {
  const { body, headers, status, statusText } = response;
  if (!body || !isEventStream(headers)) {
    onEnd();
    return response;
  }
  const reader = body.getReader();
  const stop = (reason?: unknown): Promise<void> => reader.cancel(reason).catch(() => {});
  onAbort(signal, () => void stop());
  const watched = pullStream(
    async () => (await reader.read()).value,
    (reason) => {
      onEnd();
      return stop(reason);
    },
  );
  return new Response(watched, { status, statusText, headers });
}
