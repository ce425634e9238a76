export { createUploads, type CloseUploadsOptions, type Uploads } from "./lib/create-uploads.ts";
export { createUploadPages, type OpenPage, type PageDesk } from "./lib/page/upload-pages.ts";
export { withUploads } from "./lib/with-uploads.ts";
export type { UploadPace } from "./lib/body-guard.ts";
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
export type {
  AnsweredFiles,
  AnsweredValues,
  Fields,
  FileField,
  ValueField,
} from "./lib/elicit-fields.ts";
export type { FilesOutcome } from "./lib/elicit-settlement.ts";
export type { FileRequest, RequestFiles } from "./lib/request-files.ts";

// SEP-2631, experimental
export {
  createFileTransfer,
  type FileTransfer,
  type ToolCall,
} from "./lib/sep-2631/file-transfer.ts";
export { fileInput, type FileInputTerms } from "./lib/sep-2631/file-input.ts";
