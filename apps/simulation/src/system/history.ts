/** A change of an object that was begun. */
interface Change {
  /** The bytes that it was to have; `undefined`: it was to be removed. */
  readonly content: Buffer | undefined;
  readonly begunAt: number;
  endedAt: number;
  /** It was said to be done. Any other one may have been done or not, or may still be undone by a power loss. */
  isConfirmed: boolean;
}

/** All changes of one object, over each other, and what it may therefore be. */
export class History {
  readonly #changes: Change[] = [
    { content: undefined, begunAt: -1, endedAt: -1, isConfirmed: true },
  ];

  /** Gives the function to call once it is over. A change that was refused has never been there. */
  begin(content: Buffer | undefined, now: number): (now: number, how: ChangeEnd) => void {
    const change = { content, begunAt: now, endedAt: Infinity, isConfirmed: false };
    this.#changes.push(change);
    return (endedAt, how) => {
      change.endedAt = endedAt;
      change.isConfirmed = how === "done";
      if (how === "refused") this.#changes.splice(this.#changes.indexOf(change), 1);
    };
  }

  /** Contents that it may have had at a moment of a span; `undefined` among them: it may have been absent. */
  possible(from: number, to: number): readonly (Buffer | undefined)[] {
    return this.#changes
      .filter(
        ({ begunAt, endedAt }) =>
          begunAt <= to &&
          !this.#changes.some(
            (later) => later.isConfirmed && later.begunAt > endedAt && later.endedAt < from,
          ),
      )
      .map(({ content }) => content);
  }
}

/** `uncertain`: nobody can tell whether it was done. */
type ChangeEnd = "done" | "refused" | "uncertain";
