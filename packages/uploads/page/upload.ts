import { Interrupted } from "./http.ts";
import { newTransfer, removeSent, type Receipt, sendFile } from "./transfer.ts";

/** How far a file is. `sent` counts bytes. */
export type UploadState =
  | { readonly phase: "waiting" | "sending" | "paused"; readonly sent: number }
  /** The connection broke; it goes on by itself. */
  | { readonly phase: "retrying"; readonly sent: number; readonly why: string }
  | { readonly phase: "done"; readonly sent: number; readonly receipt: Receipt }
  | { readonly phase: "failed"; readonly sent: number; readonly error: unknown };

export interface Upload {
  readonly file: File;
  readonly state: UploadState;
  pause(): void;
  /** Goes on at once, also where it waits to try again, or failed. */
  resume(): void;
  /** Ends it and takes back what was sent; resolves when that is done, or failed. */
  remove(): Promise<boolean>;
}

/** Lets so many uploads send at once; the server allows four requests to one person. */
export interface Turns {
  /** Resolves when it is the caller's turn, with what ends the turn. */
  take(signal: AbortSignal): Promise<() => void>;
}

export function createTurns(atOnce: number): Turns {
  let free = atOnce;
  const queue: (() => void)[] = [];
  const giveBack = (): void => {
    const next = queue.shift();
    if (next) next();
    else free += 1;
  };
  return {
    async take(signal) {
      if (free > 0) free -= 1;
      else await new Promise<void>((go) => queue.push(go));
      let isOver = false;
      const end = (): void => {
        if (!isOver) giveBack();
        isOver = true;
      };
      if (!signal.aborted) return end;
      end();
      throw signal.reason;
    },
  };
}

const firstDelayMs = 500;
const longestDelayMs = 15_000;

/** Sends a file until it is there, with pauses and through broken connections; begins when `after` has settled. */
export function startUpload(
  file: File,
  slotUrl: string,
  {
    turns,
    after,
    onChange,
  }: { turns: Turns; after: Promise<unknown>; onChange: (upload: Upload) => void },
): Upload {
  const transfer = newTransfer();
  let state: UploadState = { phase: "waiting", sent: 0 };
  let ending = new AbortController();
  let removed = false;

  const upload: Upload = {
    file,
    get state() {
      return state;
    },
    pause() {
      if (state.phase === "done" || state.phase === "failed") return;
      ending.abort();
      change({ phase: "paused", sent: transfer.offset });
    },
    resume() {
      if (!["paused", "retrying", "failed"].includes(state.phase)) return;
      ending.abort();
      run();
    },
    remove() {
      removed = true;
      ending.abort();
      return removeSent(transfer);
    },
  };

  function change(next: UploadState): void {
    if (removed) return;
    state = next;
    onChange(upload);
  }

  function run(): void {
    ending = new AbortController();
    const { signal } = ending;
    change({ phase: "waiting", sent: transfer.offset });
    attempts(signal).catch((error: unknown) => {
      if (!signal.aborted) change({ phase: "failed", sent: transfer.offset, error });
    });
  }

  async function attempts(signal: AbortSignal): Promise<void> {
    await after;
    for (let delayMs = firstDelayMs; ; delayMs = Math.min(delayMs * 2, longestDelayMs)) {
      const before = transfer.offset;
      const endTurn = await turns.take(signal);
      try {
        const receipt = await sendFile(file, slotUrl, transfer, {
          signal,
          onOffset: (sent) => change({ phase: "sending", sent }),
        });
        return change({ phase: "done", sent: file.size, receipt });
      } catch (error) {
        if (signal.aborted || !(error instanceof Interrupted)) throw error;
        change({ phase: "retrying", sent: transfer.offset, why: error.message });
        if (transfer.offset > before) delayMs = firstDelayMs;
        endTurn();
        await online(Math.max(delayMs, error.waitMs ?? 0), signal);
      } finally {
        endTurn();
      }
    }
  }

  run();
  return upload;
}

/** Waits so long, or until the network is back. */
function online(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void): void => {
      clearTimeout(timer);
      removeEventListener("online", onOnline);
      signal.removeEventListener("abort", onAbort);
      settle();
    };
    const onOnline = (): void => end(resolve);
    const onAbort = (): void => end(() => reject(signal.reason));
    const timer = setTimeout(onOnline, ms);
    addEventListener("online", onOnline);
    signal.addEventListener("abort", onAbort);
  });
}
