/**
 * Wakes a loop that looks whether there is something to do. News that arrives while nothing waits
 * is kept: the next wait ends at once. So a loop looks first and waits then, and misses nothing.
 */
export class Notifier {
  #hasNews = false;
  #next: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  /** Ends the waits, or the next one. */
  notify(): void {
    if (this.#wake) this.#wake();
    else this.#hasNews = true;
    this.#next = this.#wake = undefined;
  }

  /** Resolves when there was news since the wait before; all that wait share it. */
  wait(): Promise<void> {
    if (this.#hasNews) {
      this.#hasNews = false;
      return Promise.resolve();
    }
    this.#next ??= new Promise((resolve) => (this.#wake = resolve));
    return this.#next;
  }
}
