/**
 * Spreads chunks over the turns of the event loop, first come, first served. Node accepts one connection in a turn, and answers
 * small requests between turns: chunks of hundreds of readers in one turn would make all the others wait.
 */
export class ChunkTurns {
  readonly #perTurn: number;
  readonly #waiting: (() => void)[] = [];
  #left: number;
  #isCounting = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  /** Resolves when another chunk fits into the turn: at once where nothing waits. */
  next(): Promise<void> | void {
    this.#count();
    if (this.#left > 0) this.#left -= 1;
    else return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  #count(): void {
    if (this.#isCounting) return;
    this.#isCounting = true;
    setImmediate(() => {
      this.#isCounting = false;
      const resumed = this.#waiting.splice(0, this.#perTurn);
      this.#left = this.#perTurn - resumed.length;
      if (resumed.length > 0) this.#count();
      for (const resume of resumed) resume();
    });
  }
}
