export { SluiceError, type SluiceErrorCode } from "@sluice/core";
export {
  createSluice,
  type AccessRule,
  type Caller,
  type LinkRules,
  type ResourceUrl,
  type Sluice,
  type SluiceOptions,
  type ToolOptions,
} from "@sluice/server";
export { createMemoryStateStore, type StateStore } from "@sluice/state";
export { createMemoryBackend, type StorageBackend } from "@sluice/storage";
export {
  composeHandler,
  createSessions,
  withSluice,
  type SluiceHandler,
} from "@sluice/transport-http";
export {
  attachUploadTools,
  createFileTransfer,
  createUploads,
  fileInput,
  openAiFileMeta,
  uploadIdInput,
  uploadRequiredOutput,
  type Fields,
  type FilesOutcome,
  type FileTransfer,
  type UploadedFile,
  type Uploads,
  type UploadsOptions,
} from "@sluice/uploads";
