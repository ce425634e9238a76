import type { EventStore } from "@sluice/core";
import type { Sluice } from "@sluice/server";
import { Bell } from "../stream/notifier.ts";
import type { Journal } from "../stream/stream-writer.ts";
import type { RpcId } from "../protocol/message.ts";
import type { CloseResumeOptions } from "./options.ts";
import type { Run } from "./relay.ts";

/** The requests that this process is working on. */
export interface Runs {
  /** Adds one; it leaves when its journal ends. */
  add(run: Run): void;
  of(streamId: string): Run | undefined;
  readonly journalOf: (streamId: string) => Journal | undefined;
  /** Ends the runs of a session, or only the one of a request, and forgets their streams. */
  end(sessionId: string, requestId?: RpcId): Promise<void>;
  /** This process is about to end: who can read elsewhere is to go there. */
  readonly isClosing: boolean;
  /** Waits until they are done, and gives up the others, so that another process can take them over at once. */
  close(options?: CloseResumeOptions): Promise<void>;
}

/** What {@link createRuns} needs. */
export interface RunsOptions {
  readonly store: EventStore;
  /** Milliseconds for which a process that says nothing keeps its streams. */
  readonly leaseMs: number;
  readonly sluice: Pick<Sluice, "host" | "isSessionOver">;
  readonly onError: (error: unknown) => void;
}

/**
 * Makes the collection. While there is a run in it, every quarter of the lease it prolongs what this process
 * holds, and looks for answers, and for ends of sessions, that came to another process.
 */
export function createRuns({ store, leaseMs, sluice, onError }: RunsOptions): Runs {
  const runs = new Map<string, Run>();
  const sessions = new Map<string, Set<Run>>();
  const emptied = new Bell();
  let timer: ReturnType<typeof setInterval> | undefined;
  let isClosing = false;

  async function tend(run: Run): Promise<void> {
    const { journal } = run;
    await journal.hold(Date.now() + leaseMs);
    if (!journal.isAsking) return;
    const page = await store.read(journal.streamId, {
      after: journal.lastSeq,
      now: Date.now(),
      maxEvents: 1,
    });
    for (const { ask, answer } of page?.asks ?? [])
      if (answer !== undefined) await run.deliver(ask, answer);
  }

  /** Sessions are deleted at any of the processes that share the state store. */
  async function tendSession(sessionId: string): Promise<void> {
    if (await sluice.isSessionOver(sessionId)) await end(sessionId);
  }

  async function end(sessionId: string, requestId?: RpcId): Promise<void> {
    const ending = [...(sessions.get(sessionId) ?? [])].filter(
      (run) => requestId === undefined || run.requestId === requestId,
    );
    for (const { journal } of ending) journal.end();
    // what cannot be dropped is over at its end; the others, and the session, are to end all the same
    for (const { journal } of ending) await store.drop(journal.streamId).catch(onError);
  }

  function remove(run: Run): void {
    const session = sessions.get(run.sessionId);
    session?.delete(run);
    if (session?.size === 0) sessions.delete(run.sessionId);
    runs.delete(run.journal.streamId);
    if (runs.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    emptied.ring();
  }

  return {
    add(run) {
      const { journal } = run;
      if (journal.isOver) return;
      runs.set(journal.streamId, run);
      const session = sessions.get(run.sessionId) ?? new Set();
      sessions.set(run.sessionId, session.add(run));
      journal.onEnd(() => remove(run));
      timer ??= setInterval(() => {
        for (const each of runs.values()) tend(each).catch(onError);
        if (!sluice.host.state.shared) return;
        for (const sessionId of sessions.keys()) tendSession(sessionId).catch(onError);
      }, leaseMs / 4);
      // a request that nobody listens to does not keep a process alive
      (timer as { unref?: () => void }).unref?.();
    },
    of: (streamId) => runs.get(streamId),
    journalOf: (streamId) => runs.get(streamId)?.journal,
    end,
    get isClosing() {
      return isClosing;
    },
    async close({ deadlineMs = 0, signal = new AbortController().signal } = {}) {
      isClosing = true;
      for (const { journal } of runs.values()) journal.bell.ring();
      const ms = Math.min(deadlineMs, longestTimerMs);
      if (runs.size > 0) await emptied.wait(emptied.count, { ms, signal });
      await Promise.all([...runs.values()].map((run) => giveUp(run).catch(onError)));
    },
  };
}

/** Beyond that a timer goes off at once. */
const longestTimerMs = 2 ** 31 - 1;

async function giveUp({ journal }: Run): Promise<void> {
  try {
    await journal.hold(Date.now());
  } finally {
    journal.end();
  }
}
