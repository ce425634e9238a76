import { SluiceError } from "@sluice/core";
import type { SendTimeouts } from "./send-timeouts.ts";

/** Deadlines of one exchange, one after the other. */
export interface ProgressWatch {
  /** Expires with `error` unless the next phase begins within `ms`. */
  allow(ms: number, error: () => SluiceError): void;
  /** From now on the body must go out, no slower than the least rate. */
  sending(): void;
  /** Bytes went out. */
  note(bytes: number): void;
  stop(): void;
}

/** A watch that calls `expire` at most once. */
export function watchProgress(
  { idleMs, minBytesPerSecond, rateWindowMs }: SendTimeouts,
  expire: (error: SluiceError) => void,
): ProgressWatch {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastAt = 0;
  let window = { at: 0, bytes: 0 };

  function check(): void {
    const now = performance.now();
    const windowLasted = now - window.at;
    if (now - lastAt > idleMs)
      return expire(new SluiceError("interrupted", "client: the server stopped taking bytes"));
    if (windowLasted >= rateWindowMs) {
      if (window.bytes < (minBytesPerSecond * windowLasted) / 1_000)
        return expire(
          new SluiceError("timeout", "client: the server takes bytes too slowly to be worth it"),
        );
      window = { at: now, bytes: 0 };
    }
  }

  return {
    allow(ms, error) {
      clearInterval(timer);
      timer = setTimeout(() => expire(error()), ms);
    },
    sending() {
      clearInterval(timer);
      lastAt = performance.now();
      window = { at: lastAt, bytes: 0 };
      timer = setInterval(check, Math.max(5, Math.min(1_000, idleMs / 4, rateWindowMs / 4)));
    },
    note(bytes) {
      lastAt = performance.now();
      window.bytes += bytes;
    },
    stop() {
      clearInterval(timer);
    },
  };
}
