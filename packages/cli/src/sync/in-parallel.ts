/**
 * Runs work on what a generator gives, as it comes, `jobs` at a time. The first fault ends the others through their signal, and is
 * thrown once all have ended.
 */
export async function inParallel<Item>(
  items: AsyncGenerator<Item>,
  jobs: number,
  signal: AbortSignal,
  work: (item: Item, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const end = AbortSignal.any([signal, stop.signal]);

  async function workOn(): Promise<void> {
    try {
      // a generator gives one after the other to those that ask at the same time
      for (let next = await items.next(); !next.done; next = await items.next()) {
        end.throwIfAborted();
        await work(next.value, end);
      }
    } catch (error) {
      stop.abort(error);
    }
  }

  await Promise.all(Array.from({ length: jobs }, workOn));
  await items.return(undefined);
  if (stop.signal.aborted) throw stop.signal.reason;
}
