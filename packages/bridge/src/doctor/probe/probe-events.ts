import { isInTime, sleep } from "@sluice/core/async";
import type { SeenExchange } from "../evidence.ts";
import type { Visit } from "./visit.ts";

/** Milliseconds in which an open stream of events must show itself. */
const patienceMs = 3_000;

/** Opens a stream of events, twice where the first one stays silent. It stays open, for {@link probeCut}. */
export async function probeEvents(visit: Visit): Promise<void> {
  const { client, evidence } = visit;
  if (client.getProtocolEra() === "legacy") {
    // the SDK has opened one; it answers at once, if only that there is none
    const opened = (): boolean =>
      evidence.exchanges.some(
        ({ httpMethod, status, fault }) =>
          httpMethod === "GET" && (status !== undefined || fault !== undefined),
      );
    const asked = evidence.exchanges.some(({ httpMethod }) => httpMethod === "GET");
    for (let waited = 0; asked && !opened() && waited < 2 * patienceMs; waited += 50)
      await sleep(50, visit.signal);
    evidence.isEventStreamHeld = asked && !opened();
    return;
  }
  if (await isAcknowledged(visit)) return;
  evidence.isEventStreamHeld = !(await isAcknowledged(visit));
}

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
  const stream = evidence.exchanges.find(isStream);
  for (let waited = 0; stream && !stream.fault && waited < watchMs; waited += 50)
    await sleep(50, signal);
}

/** True for a stream that the server keeps open until it has something to say. */
export function isStream({ httpMethod, rpcMethod, status, headers }: SeenExchange): boolean {
  const isEvents = /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");
  const isOpen = httpMethod === "GET" || rpcMethod === "subscriptions/listen";
  return status === 200 && isEvents && isOpen;
}
