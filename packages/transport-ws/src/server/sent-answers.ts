import type { RequestId } from "@modelcontextprotocol/server";
import type { AnswerKeeper } from "@sluice/server/transport";

/** Keeps what the answers of one connection hold until they are sent. */
export class SentAnswers implements AnswerKeeper {
  readonly #kept = new Map<RequestId, (() => void)[]>();
  #isClosed = false;

  keep(id: RequestId, release: () => void): void {
    if (this.#isClosed) return release();
    const others = this.#kept.get(id);
    if (others) others.push(release);
    else this.#kept.set(id, [release]);
  }

  /** An answer is about to be sent: gives the function to call when it is. */
  sending(id: RequestId): () => void {
    const releases = this.#kept.get(id) ?? [];
    this.#kept.delete(id);
    return () => {
      for (const release of releases) release();
    };
  }

  /** The connection is gone. */
  close(): void {
    this.#isClosed = true;
    for (const releases of this.#kept.values()) for (const release of releases) release();
    this.#kept.clear();
  }
}
