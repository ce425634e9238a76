/** Until when {@link Bell.wait} waits. */
export interface BellLimits {
  readonly ms: number;
  readonly signal?: AbortSignal;
}

/** Tells waiting readers that something has changed. A class because every stream has one. */
export class Bell {
  #count = 0;
  /** Absent while nobody waits, as is the rule for a request whose client is away. */
  #waiting: Set<() => void> | undefined;

  /** Times it has rung. */
  get count(): number {
    return this.#count;
  }

  ring(): void {
    this.#count += 1;
    for (const wake of this.#waiting ?? []) wake();
  }

  /** Resolves at the next ring after it had rung `count` times, or after so many milliseconds, or when the signal aborts. */
  wait(count: number, { ms, signal }: BellLimits): Promise<void> {
    return new Promise((resolve) => {
      if (this.#count !== count || signal?.aborted || ms <= 0) return resolve();
      const waiting = (this.#waiting ??= new Set());
      const wake = (): void => {
        clearTimeout(timer);
        waiting.delete(wake);
        if (waiting.size === 0) this.#waiting = undefined;
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      waiting.add(wake);
      signal?.addEventListener("abort", wake);
    });
  }
}
