import { isInTime, sleep } from "@sluice/core/async";
import { isStream } from "../evidence.ts";
import type { Visit } from "./visit.ts";

/** Milliseconds in which an open stream of events must show itself. */
const patienceMs = 3_000;

/** Opens a stream of events, twice where the first one stays silent. It stays open, for {@link probeCut}. */
export async function probeEvents(visit: Visit): Promise<void> {
  const { client, evidence } = visit;
  if (client.getProtocolEra() === "legacy") {
    evidence.isEventStreamHeld = !(await isOpened(visit));
    return;
  }
  if (await isAcknowledged(visit)) return;
  evidence.isEventStreamHeld = !(await isAcknowledged(visit));
}

/** The SDK opens one by itself, which answers at once, if only that there is none. */
async function isOpened({ evidence, signal }: Visit): Promise<boolean> {
  for (let waited = 0; waited < 2 * patienceMs; waited += paceMs) {
    await sleep(paceMs, signal);
    const asked = evidence.exchanges.filter(({ httpMethod }) => httpMethod === "GET");
    if (asked.every(({ status, fault }) => status !== undefined || fault !== undefined))
      return true;
  }
  return false;
}

/** Milliseconds from one look to the next. */
const paceMs = 50;

/** True when the stream begins, and when the server has none. */
async function isAcknowledged({ client, signal }: Visit): Promise<boolean> {
  const given = new AbortController();
  const end = AbortSignal.any([signal, given.signal]);
  const subscription = client.listen({ resourcesListChanged: true }, { signal: end });
  const isSettled = await isInTime(
    subscription.catch(() => {}),
    patienceMs,
    signal,
  );
  signal.throwIfAborted();
  if (!isSettled) given.abort(new Error("silent"));
  return isSettled;
}

/** Waits until the stream of events has been open for a while. */
export async function probeCut({ evidence, watchMs, signal }: Visit): Promise<void> {
  for (let waited = 0; waited < watchMs; waited += paceMs) {
    const streams = evidence.exchanges.filter(isStream);
    if (streams.length === 0 || streams.some(({ fault }) => fault !== undefined)) return;
    await sleep(paceMs, signal);
  }
}
