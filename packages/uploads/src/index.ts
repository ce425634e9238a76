export { createUploads, type CloseUploadsOptions, type Uploads } from "./options/create-uploads.ts";
export type { UploadsOptions } from "./options/uploads-options.ts";
export type { UploadPace } from "./receive/body-reader.ts";
export type {
  ClaimedFile,
  ReserveOptions,
  Slot,
  Slots,
  SlotTerms,
  UploadedFile,
  UploadProgress,
} from "./slots/slots.ts";
export type { UploadLimits } from "./limits/quota-tracker.ts";
export type { Scan, ScanFacts, ScanVerdict } from "./store/scan.ts";
export type {
  AnsweredFiles,
  AnsweredValues,
  Fields,
  FileField,
  ValueField,
} from "./elicitation/fields.ts";
export type {
  FileToolConfig,
  FileToolHandler,
  FileToolInput,
  ToolFile,
} from "./tools/register-tool.ts";
export type { AttachUploadsOptions, UploadToolNames } from "./tools/upload-tools.ts";
export type { AskingResult, FilesOutcome } from "./ask/confirm-answer.ts";
export type { AskVisitor, VisitorCall, VisitorPage } from "./ask/ask-visitor.ts";
export type { AskForFiles, FileRequest } from "./ask/ask-for-files.ts";
export { uploadIdInput, uploadRequiredOutput, type UploadRequired } from "./ask/upload-required.ts";
export {
  fileInput,
  hostFileInput,
  openAiFileMeta,
  type FileArgument,
  type FileInputTerms,
  type HostFile,
} from "./files-sep-2631/file-input.ts";
