const { setImmediate: inNextTurn } = globalThis as {
  readonly setImmediate?: (task: () => void) => unknown;
};

/**
 * Runs tasks in their order, each in its own turn of the event loop: microtasks of one end before the next. The MCP
 * SDK handles a notification in a microtask and a result at once, so a result that comes in the same turn as the
 * progress before it would end the call first. A task that finds no other waiting runs at once. Runtimes without
 * `setImmediate` are browsers and Workers, which give every message a turn.
 */
export class TurnQueue {
  #waiting = 0;

  run(task: () => void): void {
    if (!inNextTurn) return task();
    const isFirst = this.#waiting === 0;
    this.#waiting += 1;
    inNextTurn(() => {
      this.#waiting -= 1;
      if (!isFirst) task();
    });
    if (isFirst) task();
  }
}
