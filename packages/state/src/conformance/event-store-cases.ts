import { answerCases } from "./event-store/answer-cases.ts";
import { boundCases } from "./event-store/bound-cases.ts";
import type { EventStoreCase } from "./event-store/event-store-bed.ts";
import { streamCases } from "./event-store/stream-cases.ts";
import { writerCases } from "./event-store/writer-cases.ts";
import { closingCase } from "./store-case.ts";

/** The rules of {@link EventStore}, to be run by any test runner or none. */
export const eventStoreCases: readonly EventStoreCase[] = [
  ...streamCases,
  ...writerCases,
  ...answerCases,
  ...boundCases,
  closingCase({}),
];
