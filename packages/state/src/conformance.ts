import {
  writerCases as eventWriterCases,
  answerCases,
} from "./conformance/event-store/writer-cases.ts";
import { boundCases } from "./conformance/event-store/bound-cases.ts";
import {
  type EventStoreCase,
  kit as eventStoreKit,
} from "./conformance/event-store/event-store-bed.ts";
import { streamCases } from "./conformance/event-store/stream-cases.ts";
import { grantCases } from "./conformance/state-store/grant-cases.ts";
import { recordCases, sessionCases } from "./conformance/state-store/record-cases.ts";
import {
  kit as stateStoreKit,
  type StateStoreCase,
} from "./conformance/state-store/state-store-bed.ts";
import { accountCases } from "./conformance/upload-store/account-cases.ts";
import {
  kit as uploadStoreKit,
  type UploadStoreCase,
} from "./conformance/upload-store/upload-store-bed.ts";
import { writerCases as uploadWriterCases } from "./conformance/upload-store/writer-cases.ts";

export type { EventStoreCase, StateStoreCase, UploadStoreCase };
export type { StoreCase } from "./conformance/store-kit.ts";

/** The rules of {@link StateStore}, to be run by any test runner or none. */
export const stateStoreCases: readonly StateStoreCase[] = [
  ...grantCases,
  ...recordCases,
  ...sessionCases,
  stateStoreKit.closing,
];

/** The rules of {@link EventStore}, to be run by any test runner or none. */
export const eventStoreCases: readonly EventStoreCase[] = [
  ...streamCases,
  ...eventWriterCases,
  ...answerCases,
  ...boundCases,
  eventStoreKit.closing,
];

/** The rules of {@link UploadStore}, to be run by any test runner or none. */
export const uploadStoreCases: readonly UploadStoreCase[] = [
  ...accountCases,
  ...uploadWriterCases,
  uploadStoreKit.closing,
];
