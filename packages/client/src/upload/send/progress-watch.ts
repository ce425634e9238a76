import { SluiceError } from "@sluice/core";
import { systemClock } from "@sluice/core/async";
import { startPace, type Pace } from "../../net/pace.ts";
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

/** A watch that calls `expire` when a phase takes too long. */
export function watchProgress(
  timeouts: SendTimeouts,
  expire: (error: SluiceError) => void,
): ProgressWatch {
  let pace: Pace | undefined;
  let endPhase: (() => void) | undefined;

  return {
    allow(ms, error) {
      endPhase?.();
      endPhase = systemClock.schedule(() => expire(error()), ms);
    },
    sending() {
      endPhase?.();
      const started = startPace({ ...timeouts, idle, slow }, expire);
      endPhase = () => void started.stop();
      pace = started;
    },
    note: (bytes) => pace?.note(bytes),
    stop: () => endPhase?.(),
  };
}

function idle(): SluiceError {
  return new SluiceError("interrupted", "client: the server stopped taking bytes");
}

function slow(): SluiceError {
  return new SluiceError("timeout", "client: the server takes bytes too slowly to be worth it");
}
