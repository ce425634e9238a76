import { answerCases, writerCases } from "./event-store/writer-cases.ts";
import { boundCases } from "./event-store/bound-cases.ts";
import { kit, type EventStoreCase } from "./event-store/event-store-bed.ts";
import { streamCases } from "./event-store/stream-cases.ts";

/** The rules of {@link EventStore}, to be run by any test runner or none. */
export const eventStoreCases: readonly EventStoreCase[] = [
  ...streamCases,
  ...writerCases,
  ...answerCases,
  ...boundCases,
  kit.closing,
];
