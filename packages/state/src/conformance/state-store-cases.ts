import { grantCases } from "./state-store/grant-cases.ts";
import { recordCases, sessionCases } from "./state-store/record-cases.ts";
import { kit, type StateStoreCase } from "./state-store/state-store-bed.ts";

/** The rules of {@link StateStore}, to be run by any test runner or none. */
export const stateStoreCases: readonly StateStoreCase[] = [
  ...grantCases,
  ...recordCases,
  ...sessionCases,
  kit.closing,
];
