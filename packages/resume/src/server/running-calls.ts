import { backgroundClock, isInTime, type RpcId } from "@sluice/core/internal";
import type { EventStore } from "@sluice/state";
import type { Sluice } from "@sluice/server";
import type { RunningCall, StreamWriter } from "../stream/stream-writer.ts";
import type { CloseResumeOptions } from "./options.ts";

export interface RunningCallsOptions {
  readonly store: EventStore;
  /** Milliseconds for which a silent process keeps its streams. */
  readonly leaseMs: number;
  readonly sluice: Pick<Sluice, "host">;
  readonly onError: (error: unknown) => void;
}

/**
 * The calls that this process is working on. While it has a call, every quarter of the lease it prolongs what this
 * process holds, and looks for responses, and for ends of sessions, that came to another process.
 */
export class RunningCalls {
  readonly #options: RunningCallsOptions;
  readonly #calls = new Map<string, RunningCall>();
  readonly #sessions = new Map<string, Set<RunningCall>>();
  readonly #deletions = new Map<string, Promise<Response>>();
  #cancelLook: (() => void) | undefined;
  #isClosing = false;

  constructor(options: RunningCallsOptions) {
    this.#options = options;
  }

  /** Adds one; it leaves when its stream ends. */
  add(call: RunningCall): void {
    const { writer } = call;
    if (writer.isOver) return;
    this.#calls.set(writer.streamId, call);
    const session = this.#sessions.get(call.sessionId) ?? new Set();
    this.#sessions.set(call.sessionId, session.add(call));
    writer.onEnd(() => this.#remove(call));
    if (!this.#cancelLook) this.#scheduleLook();
  }

  of(streamId: string): RunningCall | undefined {
    return this.#calls.get(streamId);
  }

  writerOf(streamId: string): StreamWriter | undefined {
    return this.#calls.get(streamId)?.writer;
  }

  /** Ends the calls of a session, or only the one of a request, and forgets their streams. */
  async end(sessionId: string, requestId?: RpcId): Promise<void> {
    const endingCalls = [...(this.#sessions.get(sessionId) ?? [])].filter(
      (call) => requestId === undefined || call.requestId === requestId,
    );
    for (const { writer } of endingCalls) writer.end();
    // one that cannot be dropped expires; it keeps neither the others nor the session
    for (const { writer } of endingCalls)
      await this.#options.store.drop(writer.streamId).catch(this.#options.onError);
  }

  /** Resolves once it is clear whether the session that a call is in was deleted. */
  deletionOf(sessionId: string): Promise<unknown> | undefined {
    return this.#deletions.get(sessionId)?.catch(() => {});
  }

  /** Deletes a session, and ends its calls if it is gone: until that is clear, none of them fails because its server left. */
  async deleteSession(sessionId: string, work: () => Promise<Response>): Promise<Response> {
    const deletion = this.#deleteSession(sessionId, work);
    this.#deletions.set(sessionId, deletion);
    return deletion.finally(() => {
      // a later request may be deleting the same session
      if (this.#deletions.get(sessionId) === deletion) this.#deletions.delete(sessionId);
    });
  }

  /** True once this process is about to end: its readers go elsewhere. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Waits until the calls are done, and gives up the others: another process can take them over at once. */
  async close({ deadlineMs = 0, signal }: CloseResumeOptions = {}): Promise<void> {
    this.#isClosing = true;
    for (const { writer } of this.#calls.values()) writer.notify();
    if (this.#calls.size > 0) await isInTime(this.#emptied(), deadlineMs, signal);
    await Promise.all(
      [...this.#calls.values()].map((call) => giveUp(call).catch(this.#options.onError)),
    );
  }

  /** Looks after all calls, again and again. Its timer keeps no process alive. */
  #scheduleLook(): void {
    this.#cancelLook = backgroundClock.schedule(() => {
      this.#scheduleLook();
      for (const call of this.#calls.values()) this.#lookAfter(call).catch(this.#options.onError);
      if (!this.#options.sluice.host.stores.state.shared) return;
      for (const sessionId of this.#sessions.keys())
        this.#lookAfterSession(sessionId).catch(this.#options.onError);
    }, this.#options.leaseMs / 4);
  }

  async #lookAfter(call: RunningCall): Promise<void> {
    const { writer } = call;
    await writer.hold(Date.now() + this.#options.leaseMs);
    if (!writer.isAsking) return;
    const page = await this.#options.store.read(writer.streamId, {
      after: writer.lastSeq,
      now: Date.now(),
      maxEvents: 1,
    });
    for (const { ask, answer } of page?.asks ?? [])
      if (answer !== undefined) await call.deliver(ask, answer);
  }

  /** Any process that shares the state store may delete a session. */
  async #lookAfterSession(sessionId: string): Promise<void> {
    if (await this.#options.sluice.host.isSessionOver(sessionId)) await this.end(sessionId);
  }

  async #deleteSession(sessionId: string, work: () => Promise<Response>): Promise<Response> {
    const response = await work();
    if (response.ok) await this.end(sessionId);
    return response;
  }

  #remove(call: RunningCall): void {
    const session = this.#sessions.get(call.sessionId);
    session?.delete(call);
    if (session?.size === 0) this.#sessions.delete(call.sessionId);
    this.#calls.delete(call.writer.streamId);
    if (this.#calls.size > 0) return;
    this.#cancelLook?.();
    this.#cancelLook = undefined;
  }

  /** Resolves when there are no calls any more. */
  async #emptied(): Promise<void> {
    // the loop reaches those that are added during it
    for (const { writer } of this.#calls.values())
      await new Promise<void>((resolve) => writer.onEnd(resolve));
  }
}

async function giveUp({ writer }: RunningCall): Promise<void> {
  try {
    await writer.hold(Date.now());
  } finally {
    writer.end();
  }
}
