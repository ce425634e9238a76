import { within } from "./within.ts";

/** Waits for an event at most `timeoutMs` and until `signal` aborts. True when it came, false else; never rejects. */
export function isInTime(
  event: Promise<unknown>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<boolean> {
  return within(event, { timeoutMs, expired, signal }).then(
    () => true,
    () => false,
  );
}

function expired(): Error {
  return new Error("late");
}
