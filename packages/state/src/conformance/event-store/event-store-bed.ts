import type {
  EventStore,
  EventStoreLimits,
  NewEvent,
  NewStream,
  StreamPage,
} from "../../contract/event-store.ts";
import { createStoreKit, type StoreCase, type StoreKit } from "../store-kit.ts";

/** One rule that every event store keeps, with the check that shows it. */
export type EventStoreCase = StoreCase<EventStore, EventStoreLimits>;

export const kit: StoreKit<EventStore, EventStoreLimits> = createStoreKit("event store", {});

export const start = 1_800_000_000_000;
export const ageMs = 3_600_000;
export const holdMs = 10_000;

export function stream(other: Partial<NewStream> = {}): NewStream {
  return { record: "", now: start, expiresAt: start + ageMs, heldUntil: start + holdMs, ...other };
}

export function event(text: string, other: Partial<NewEvent> = {}): NewEvent {
  return { epoch: 1, text, now: start, ...other };
}

/** Opens a stream "a" that asks these questions, in its events from 1. */
export async function asking(store: EventStore, ...asks: readonly string[]): Promise<void> {
  await store.open("a", stream());
  for (const ask of asks) await store.append("a", event(`asks ${ask}`, { ask }));
}

export async function page(
  store: EventStore,
  id: string,
  after: number,
  maxEvents?: number,
  now: number = start,
): Promise<StreamPage> {
  const read = await store.read(id, { after, now, maxEvents });
  if (!read) throw new Error(`event store: the stream ${show(id)} should be there`);
  return read;
}

export function show(value: unknown): string {
  return JSON.stringify(value);
}
