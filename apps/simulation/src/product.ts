/** What profiles use of the product. It is bundled, and evaluated once for every simulated process. */
export { McpServer } from "@modelcontextprotocol/server";
export { createStreaming, saveResource } from "@sluice/client";
export { SluiceError, formatKey } from "@sluice/core";
export { createSluice } from "@sluice/server";
export { createRedisStores } from "@sluice/state-redis";
export { createMemoryBackend } from "@sluice/storage";
export { createHandler } from "@sluice/transport-http";
export { createUploads } from "@sluice/uploads";
