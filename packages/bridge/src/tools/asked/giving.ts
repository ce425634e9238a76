import { SluiceError } from "@sluice/core";
import { abortable } from "@sluice/core/async";
import type { SendableFile } from "../../confine/send-folders.ts";
import { defer } from "../../messages/deferred.ts";
import type { ToolSendSettings } from "../send-file.ts";

/** The file of the `send_file` that is running. */
export interface Giving extends Pick<ToolSendSettings, "whileGiving"> {
  /** Counts as given. Undefined when none is running. */
  current(): SendableFile | undefined;
  /** Aborts with the call. */
  signal(): AbortSignal;
  /** Ends the call with an error. */
  fail(error: unknown): void;
}

/** The one file that requests of the server are answered with: calls wait for each other. */
export function createGiving(): Giving {
  let file: SendableFile | undefined;
  let given = 0;
  let fault: { readonly error: unknown } | undefined;
  let end = new AbortController();
  let last: Promise<void> = Promise.resolve();

  async function give<T>(next: SendableFile, work: () => Promise<T>) {
    file = next;
    given = 0;
    fault = undefined;
    end = new AbortController();
    try {
      const value = await work();
      if (fault) throw (fault as { readonly error: unknown }).error;
      return { value, given };
    } finally {
      file = undefined;
      end.abort(new SluiceError("interrupted", "bridge: the call is over"));
    }
  }

  return {
    current() {
      if (file) given += 1;
      return file;
    },
    signal: () => end.signal,
    fail: (error) => void (fault = { error }),
    async whileGiving(next, signal, work) {
      const before = last;
      const turn = defer<void>();
      last = turn.promise;
      try {
        await abortable(before, signal);
        return await give(next, work);
      } finally {
        // one that gave up must not let the next one in early
        void before.then(() => turn.resolve());
      }
    },
  };
}
