/** A session of this process. */
export interface SessionEntry<Live> {
  readonly id: string;
  /** Tag of the principal that opened it, the only one that may use it; empty for the anonymous. */
  readonly holder: string;
  /** The share that it counts in; empty for callers without verified credentials. */
  readonly owner: string;
  readonly live: Live;
}

/** Bounds of a session table. */
export interface SessionBounds {
  readonly idleMs: number;
  readonly perPrincipal: number;
  readonly perProcess: number;
}

/** The sessions of one process: bounded in number, for the process and for each owner, and in idle time. */
export interface SessionTable<Live> {
  /**
   * Adds a session. If there is no room, evicts the longest idle session of the same owner, or
   * else, in a full process, the longest idle one without an owner. False when none is idle.
   */
  add(entry: SessionEntry<Live>): boolean;
  /** The session, unless its idle time has expired. */
  find(id: string): SessionEntry<Live> | undefined;
  /**
   * Gives a session that was opened without verified credentials to the caller that has signed in; from then on only
   * that caller may use it, and streams that were opened before end. Undefined if the share of the owner is full of
   * sessions in use.
   */
  claim(
    entry: SessionEntry<Live>,
    caller: Pick<SessionEntry<Live>, "holder" | "owner">,
  ): SessionEntry<Live> | undefined;
  /**
   * Marks a request or stream as in progress: its session is not idle until the function given back
   * was called. `onClaim` is called when the session is given to another caller before.
   */
  hold(entry: SessionEntry<Live>, onClaim?: () => void): () => void;
  remove(id: string): void;
  /** Removes all of them, and stops the timer. */
  clear(): SessionEntry<Live>[];
}

/** Makes an empty table. `onEnd` is called for each session that expires or is evicted. */
export function createSessionTable<Live>(
  { idleMs, perPrincipal, perProcess }: SessionBounds,
  onEnd: (entry: SessionEntry<Live>) => void,
): SessionTable<Live> {
  // in the order of their last use
  const sessions = new Map<string, SessionState<Live>>();
  let timer: ReturnType<typeof setInterval> | undefined;

  function isIdle({ requests, usedAt }: SessionState<Live>, now: number): boolean {
    return requests === 0 && now - usedAt >= idleMs;
  }

  function remove(id: string): void {
    sessions.delete(id);
    if (sessions.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  function end({ entry }: SessionState<Live>): void {
    remove(entry.id);
    onEnd(entry);
  }

  function endIdle(): void {
    const now = Date.now();
    for (const session of sessions.values()) if (isIdle(session, now)) end(session);
  }

  function startTimer(): void {
    if (timer !== undefined) return;
    timer = setInterval(endIdle, Math.min(idleMs, checkMs));
    // idle sessions do not keep a process alive
    (timer as { unref?: () => void }).unref?.();
  }

  function endLongestIdleOf(owner: string): boolean {
    for (const session of sessions.values())
      if (session.entry.owner === owner && session.requests === 0) {
        end(session);
        return true;
      }
    return false;
  }

  function isShareFull(owner: string): boolean {
    if (owner === "") return false;
    let ownCount = 0;
    for (const { entry } of sessions.values()) if (entry.owner === owner) ownCount += 1;
    return ownCount >= perPrincipal;
  }

  function use(session: SessionState<Live>): void {
    session.usedAt = Date.now();
    if (!sessions.delete(session.entry.id)) return;
    sessions.set(session.entry.id, session);
  }

  return {
    add(entry) {
      const { id, owner } = entry;
      endIdle();
      if (isShareFull(owner) && !endLongestIdleOf(owner)) return false;
      if (sessions.size >= perProcess && !endLongestIdleOf(owner) && !endLongestIdleOf(""))
        return false;
      sessions.set(id, { entry, requests: 0, usedAt: Date.now(), listeners: new Set() });
      startTimer();
      return true;
    },
    find(id) {
      const session = sessions.get(id);
      if (!session) return undefined;
      if (!isIdle(session, Date.now())) return session.entry;
      end(session);
      return undefined;
    },
    claim({ id }, { holder, owner }) {
      const session = sessions.get(id);
      if (!session || (isShareFull(owner) && !endLongestIdleOf(owner))) return undefined;
      session.entry = { ...session.entry, holder, owner };
      for (const tell of session.listeners) tell();
      session.listeners.clear();
      return session.entry;
    },
    hold(entry, onClaim) {
      const session = sessions.get(entry.id);
      if (!session) return () => {};
      if (onClaim) session.listeners.add(onClaim);
      session.requests += 1;
      use(session);
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        if (onClaim) session.listeners.delete(onClaim);
        session.requests -= 1;
        use(session);
      };
    },
    remove,
    clear() {
      const entries = [...sessions.values()].map(({ entry }) => entry);
      for (const { id } of entries) remove(id);
      return entries;
    },
  };
}

interface SessionState<Live> {
  entry: SessionEntry<Live>;
  /** Requests and streams in progress. */
  requests: number;
  /** When the last of them began or ended, in unix milliseconds. */
  usedAt: number;
  readonly listeners: Set<() => void>;
}

/** Idle sessions are looked for at least that often. */
const checkMs = 30_000;
