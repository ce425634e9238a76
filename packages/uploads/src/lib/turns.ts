import { SluiceError } from "@sluice/core";

/** The turn of one request at a file. */
interface Turn {
  /** Aborts when another request wants the file. */
  readonly signal: AbortSignal;
  end(): void;
}

/** One request at a time works on a file: the newest, because its sender has given up the older ones. */
export interface Turns {
  /** Ends the turn of whoever has the file, waits until it is over, and takes it. */
  take(fileId: string): Promise<Turn>;
}

/** Makes the turns of one process. */
export function createTurns(): Turns {
  const current = new Map<
    string,
    { readonly stop: AbortController; readonly over: Promise<void> }
  >();
  return {
    async take(fileId) {
      for (let holder = current.get(fileId); holder; holder = current.get(fileId)) {
        holder.stop.abort(
          new SluiceError("interrupted", "uploads: another request goes on with this file"),
        );
        await holder.over;
      }
      const stop = new AbortController();
      let finish!: () => void;
      const over = new Promise<void>((resolve) => void (finish = resolve));
      current.set(fileId, { stop, over });
      return {
        signal: stop.signal,
        end() {
          current.delete(fileId);
          finish();
        },
      };
    },
  };
}
