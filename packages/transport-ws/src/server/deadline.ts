import { SluiceError } from "@sluice/core";

/** Rejects with `timeout` when a promise takes longer. Keeps no process from ending. */
export async function withinMs<Value>(ms: number, promise: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new SluiceError("timeout", `ws: not done within ${ms} ms`)),
      ms,
    ).unref();
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Calls `expired` once at a time in unix seconds, however far away; gives what ends the watch. */
export function watchExpiry(atSeconds: number | undefined, expired: () => void): () => void {
  if (atSeconds === undefined) return () => {};
  let timer: NodeJS.Timeout | undefined;
  function watch(at: number): void {
    const leftMs = at * 1_000 - Date.now();
    if (leftMs <= 0) return expired();
    timer = setTimeout(() => watch(at), Math.min(leftMs, longestTimerMs)).unref();
  }
  watch(atSeconds);
  return () => clearTimeout(timer);
}

/** Longer ones end at once. */
export const longestTimerMs: number = 2 ** 31 - 1;
