export { type AzureBlobBackendOptions, createAzureBlobBackend } from "./lib/azure-blob-backend.ts";
export type { AzureContainer } from "./lib/container.ts";
export type { EventQueue, QueuedMessage } from "./lib/watch.ts";
