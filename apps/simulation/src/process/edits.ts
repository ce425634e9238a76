/** A change of the product's text, made while it is bundled. */
export interface Edit {
  /** End of the path of a source, such as `client/src/save/part-file.ts`. */
  readonly file: string;
  /** Occurs exactly once in it. */
  readonly from: string;
  readonly to: string;
}

/** A fault that somebody could write, and that a profile must find. */
export interface Mutant {
  readonly name: string;
  readonly edits: readonly Edit[];
  /** Seeds within which its profile finds it. */
  readonly runs: number;
}

/** Edits of one bundle, each of which has to be used. */
export class Edits {
  readonly #edits: readonly Edit[];
  readonly #used: Set<Edit> = new Set();

  constructor(edits: readonly Edit[]) {
    this.#edits = edits;
  }

  /** The text of a source as it is to be bundled. Throws if an edit does not fit it any more. */
  apply(path: string, text: string): string {
    for (const edit of this.#edits) {
      if (!path.endsWith(`/${edit.file}`)) continue;
      if (text.split(edit.from).length !== 2)
        throw new Error(
          `${edit.file}: this text must occur once, and occurs ${text.split(edit.from).length - 1} times; write the edit anew:\n${edit.from}`,
        );
      text = text.replace(edit.from, () => edit.to);
      this.#used.add(edit);
    }
    return text;
  }

  /** Throws if a file of an edit was not bundled. */
  ensureUsed(): void {
    const unused = this.#edits.find((edit) => !this.#used.has(edit));
    if (unused) throw new Error(`${unused.file} is not bundled: an edit of it changes nothing`);
  }
}
