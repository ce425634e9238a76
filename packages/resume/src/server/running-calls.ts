import type { RpcId } from "@sluice/core";
import type { EventStore } from "@sluice/state";
import { backgroundClock, isInTime } from "@sluice/core/async";
import type { Sluice } from "@sluice/server";
import type { RunningCall, StreamWriter } from "../stream/stream-writer.ts";
import type { CloseResumeOptions } from "./options.ts";

/** The calls that this process is working on. */
export interface RunningCalls {
  /** Adds one; it leaves when its stream ends. */
  add(call: RunningCall): void;
  of(streamId: string): RunningCall | undefined;
  readonly writerOf: (streamId: string) => StreamWriter | undefined;
  /** Deletes a session, and ends its calls if it is gone: until that is clear, none of them fails because its server left. */
  deleteSession(sessionId: string, work: () => Promise<Response>): Promise<Response>;
  /** Resolves once it is clear whether the session that a call is in was deleted. */
  deletionOf(sessionId: string): Promise<unknown> | undefined;
  /** Ends the calls of a session, or only the one of a request, and forgets their streams. */
  end(sessionId: string, requestId?: RpcId): Promise<void>;
  /** True once this process is about to end: its readers go elsewhere. */
  readonly isClosing: boolean;
  /** Waits until the calls are done, and gives up the others: another process can take them over at once. */
  close(options?: CloseResumeOptions): Promise<void>;
}

/** Options of {@link createRunningCalls}. */
export interface RunningCallsOptions {
  readonly store: EventStore;
  /** Milliseconds for which a silent process keeps its streams. */
  readonly leaseMs: number;
  readonly sluice: Pick<Sluice, "host" | "isSessionOver">;
  readonly onError: (error: unknown) => void;
}

/**
 * Makes the collection. While it has a call, every quarter of the lease it prolongs what this process holds, and looks
 * for answers, and for ends of sessions, that came to another process.
 */
export function createRunningCalls(options: RunningCallsOptions): RunningCalls {
  const { store, leaseMs, sluice, onError } = options;
  const calls = new Map<string, RunningCall>();
  const sessions = new Map<string, Set<RunningCall>>();
  const deletions = new Map<string, Promise<Response>>();
  let cancelLook: (() => void) | undefined;
  let isClosing = false;

  /** Looks after all calls, again and again. Its timer keeps no process alive. */
  function scheduleLook(): void {
    cancelLook = backgroundClock.schedule(() => {
      scheduleLook();
      for (const call of calls.values()) lookAfter(call).catch(onError);
      if (!sluice.host.state.shared) return;
      for (const sessionId of sessions.keys()) lookAfterSession(sessionId).catch(onError);
    }, leaseMs / 4);
  }

  async function lookAfter(call: RunningCall): Promise<void> {
    const { writer } = call;
    await writer.hold(Date.now() + leaseMs);
    if (!writer.isAsking) return;
    const page = await store.read(writer.streamId, {
      after: writer.lastSeq,
      now: Date.now(),
      maxEvents: 1,
    });
    for (const { ask, answer } of page?.asks ?? [])
      if (answer !== undefined) await call.deliver(ask, answer);
  }

  /** Any process that shares the state store may delete a session. */
  async function lookAfterSession(sessionId: string): Promise<void> {
    if (await sluice.isSessionOver(sessionId)) await end(sessionId);
  }

  async function end(sessionId: string, requestId?: RpcId): Promise<void> {
    const endingCalls = [...(sessions.get(sessionId) ?? [])].filter(
      (call) => requestId === undefined || call.requestId === requestId,
    );
    for (const { writer } of endingCalls) writer.end();
    // one that cannot be dropped expires; it keeps neither the others nor the session
    for (const { writer } of endingCalls) await store.drop(writer.streamId).catch(onError);
  }

  async function deleteSession(
    sessionId: string,
    work: () => Promise<Response>,
  ): Promise<Response> {
    const response = await work();
    if (response.ok) await end(sessionId);
    return response;
  }

  function remove(call: RunningCall): void {
    const session = sessions.get(call.sessionId);
    session?.delete(call);
    if (session?.size === 0) sessions.delete(call.sessionId);
    calls.delete(call.writer.streamId);
    if (calls.size > 0) return;
    cancelLook?.();
    cancelLook = undefined;
  }

  /** Resolves when there are no calls any more. */
  async function emptied(): Promise<void> {
    // the loop reaches those that are added during it
    for (const { writer } of calls.values())
      await new Promise<void>((resolve) => writer.onEnd(resolve));
  }

  return {
    add(call) {
      const { writer } = call;
      if (writer.isOver) return;
      calls.set(writer.streamId, call);
      const session = sessions.get(call.sessionId) ?? new Set();
      sessions.set(call.sessionId, session.add(call));
      writer.onEnd(() => remove(call));
      if (!cancelLook) scheduleLook();
    },
    of: (streamId) => calls.get(streamId),
    writerOf: (streamId) => calls.get(streamId)?.writer,
    end,
    deletionOf: (sessionId) => deletions.get(sessionId)?.catch(() => {}),
    async deleteSession(sessionId, work) {
      const deletion = deleteSession(sessionId, work);
      deletions.set(sessionId, deletion);
      return deletion.finally(() => {
        // a later request may be deleting the same session
        if (deletions.get(sessionId) === deletion) deletions.delete(sessionId);
      });
    },
    get isClosing() {
      return isClosing;
    },
    async close({ deadlineMs = 0, signal } = {}) {
      isClosing = true;
      for (const { writer } of calls.values()) writer.notify();
      if (calls.size > 0) await isInTime(emptied(), deadlineMs, signal);
      await Promise.all([...calls.values()].map((call) => giveUp(call).catch(onError)));
    },
  };
}

async function giveUp({ writer }: RunningCall): Promise<void> {
  try {
    await writer.hold(Date.now());
  } finally {
    writer.end();
  }
}
