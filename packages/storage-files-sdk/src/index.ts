export { createFilesSdkBackend, type FilesSdkBackendOptions } from "./lib/files-sdk-backend.ts";
