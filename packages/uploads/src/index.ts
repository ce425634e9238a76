export {
  createUploads,
  withUploads,
  type CloseUploadsOptions,
  type Uploads,
  type UploadsOptions,
} from "./options/create-uploads.ts";
export type { UploadPace } from "./receive/read-body.ts";
export type {
  ClaimedFile,
  ReserveOptions,
  Slot,
  Slots,
  SlotTerms,
  UploadedFile,
  UploadProgress,
} from "./slots/slots.ts";
export type { UploadQuota } from "./limits/quota-tracker.ts";
export type { Scan, ScanFacts, ScanVerdict } from "./store/scan.ts";
export type {
  AnsweredFiles,
  AnsweredValues,
  Fields,
  FileField,
  ValueField,
} from "./elicitation/fields.ts";
export type { FilesOutcome } from "./ask/confirm-answer.ts";
export type { FileRequest, RequestFiles } from "./ask/request-files.ts";
export { uploadIdInput, uploadRequiredOutput, type UploadRequired } from "./ask/upload-required.ts";
export { attachUploadTools, type UploadToolOptions } from "./tools/upload-tools.ts";

// SEP-2631, experimental
export {
  createFileTransfer,
  type FileTransfer,
  type FileTransferOptions,
  type ToolCall,
} from "./files-sep-2631/file-transfer.ts";
export {
  fileInput,
  openAiFileMeta,
  type FileArgument,
  type FileInputTerms,
  type HandedOverFile,
} from "./files-sep-2631/file-input.ts";
