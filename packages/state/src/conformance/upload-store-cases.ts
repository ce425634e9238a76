import { accountCases } from "./upload-store/account-cases.ts";
import { kit, type UploadStoreCase } from "./upload-store/upload-store-bed.ts";
import { writerCases } from "./upload-store/writer-cases.ts";

/** The rules of {@link UploadStore}, to be run by any test runner or none. */
export const uploadStoreCases: readonly UploadStoreCase[] = [
  ...accountCases,
  ...writerCases,
  kit.closing,
];
