export { createUploads, type Uploads } from "./lib/create-uploads.ts";
export { withUploads } from "./lib/with-uploads.ts";
export type {
  ClaimedFile,
  ReserveOptions,
  Slot,
  Slots,
  SlotTerms,
  UploadedFile,
  UploadProgress,
} from "./lib/slots.ts";
export type {
  Scan,
  ScanFacts,
  ScanVerdict,
  UploadQuota,
  UploadsOptions,
} from "./lib/uploads-options.ts";
