import { Interrupted } from "./http.ts";
import type { BegunFile, StoredFile } from "./overview.ts";
import {
  fileIdOf,
  newTransfer,
  removeSent,
  sendFile,
  type Receipt,
  type Source,
} from "./transfer.ts";

/** How far a file is. `sent` counts bytes. */
export type UploadState =
  | { readonly phase: "waiting" | "sending" | "paused"; readonly sent: number }
  /** It was begun on a page that is gone, or goes on in another one. */
  | { readonly phase: "left"; readonly sent: number }
  /** The connection broke; it resumes by itself. */
  | { readonly phase: "retrying"; readonly sent: number; readonly why: string }
  | { readonly phase: "done"; readonly sent: number; readonly receipt: Receipt }
  | { readonly phase: "failed"; readonly sent: number; readonly error: unknown };

export interface Upload {
  readonly file: Source;
  /** Absent until the server has it. */
  readonly fileId: string | undefined;
  readonly state: UploadState;
  pause(): void;
  /** Goes on at once, also where it waits to try again, or failed. */
  resume(): void;
  /** Ends the sending: the server has as much of it. */
  leave(sent: number): void;
  /** The server has all of it, whatever this page knows. */
  settle(stored: StoredFile): void;
  /** Ends it and takes back what was sent; resolves when that is done, or failed. */
  remove(): Promise<boolean>;
}

/** Lets this many uploads send at once; the server allows four requests to one person. */
export interface SendLimit {
  /** Waits until the upload may send; gives the function that lets the next one. */
  take(signal: AbortSignal): Promise<() => void>;
}

export function createSendLimit(atOnce: number): SendLimit {
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

interface UploadOptions {
  readonly sendLimit: SendLimit;
  /** The sending begins when it has settled. */
  readonly after: Promise<unknown>;
  readonly find: (signal: AbortSignal) => Promise<BegunFile | undefined>;
  readonly onChange: (upload: Upload) => void;
}

/** Sends a file until it is there, with pauses and through broken connections. `begun` is what the server has of it. */
export function startUpload(
  file: Source,
  slotUrl: string,
  options: UploadOptions,
  begun?: BegunFile,
): Upload {
  const upload = createUpload(file, slotUrl, options, begun);
  upload.resume();
  return upload;
}

/** A file of which the server has all or some, and this page nothing. */
export function foundUpload(
  found: BegunFile | StoredFile,
  slotUrl: string,
  options: UploadOptions,
): Upload {
  const { name, size } = found;
  const begun = "received" in found ? found : { ...found, received: size };
  const nothingLeft = { name, size, type: "", slice: () => new Blob() };
  const upload = createUpload(nothingLeft, slotUrl, options, begun);
  if ("received" in found) upload.leave(found.received);
  else upload.settle(found);
  return upload;
}

function createUpload(
  file: Source,
  slotUrl: string,
  { sendLimit, after, find, onChange }: UploadOptions,
  begun?: BegunFile,
): Upload {
  const transfer = newTransfer(slotUrl, begun);
  let state: UploadState = { phase: "paused", sent: transfer.offset };
  let ending = new AbortController();
  let removed = false;

  const upload: Upload = {
    file,
    get fileId() {
      return fileIdOf(transfer);
    },
    get state() {
      return state;
    },
    pause() {
      if (!["waiting", "sending", "retrying"].includes(state.phase)) return;
      ending.abort();
      change({ phase: "paused", sent: transfer.offset });
    },
    resume() {
      if (!["paused", "retrying", "failed", "left"].includes(state.phase)) return;
      ending.abort();
      run();
    },
    leave(sent) {
      ending.abort();
      change({ phase: "left", sent });
    },
    settle({ fileId: _known, ...receipt }) {
      if (state.phase === "done") return;
      ending.abort();
      change({ phase: "done", sent: file.size, receipt });
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
      const release = await sendLimit.take(signal);
      try {
        const receipt = await sendFile(file, slotUrl, transfer, {
          signal,
          onOffset: (sent) => {
            if (!signal.aborted) change({ phase: "sending", sent });
          },
          find,
        });
        if (!signal.aborted) change({ phase: "done", sent: file.size, receipt });
        return;
      } catch (error) {
        if (signal.aborted || !(error instanceof Interrupted)) throw error;
        change({ phase: "retrying", sent: transfer.offset, why: error.message });
        if (transfer.offset > before) delayMs = firstDelayMs;
        release();
        await online(Math.max(delayMs, error.waitMs ?? 0), signal);
      } finally {
        release();
      }
    }
  }

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
