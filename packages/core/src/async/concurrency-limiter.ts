/** Counts operations in progress for each key. An idle key takes no memory. */
export class ConcurrencyLimiter {
  readonly #counts = new Map<string, number>();

  /**
   * Counts one more under a key, and gives the function that ends it, which is idempotent.
   * `undefined` when `limit` are in progress.
   */
  take(key: string, limit: number): (() => void) | undefined {
    const count = this.#counts.get(key) ?? 0;
    if (count >= limit) return undefined;
    this.#counts.set(key, count + 1);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      const left = this.#counts.get(key)! - 1;
      if (left === 0) this.#counts.delete(key);
      else this.#counts.set(key, left);
    };
  }
}
