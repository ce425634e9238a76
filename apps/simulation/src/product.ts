/** What profiles use of the product. It is bundled, and evaluated once for every simulated process. */
export { McpServer } from "@modelcontextprotocol/server";
export { createStreaming, saveResource } from "@sluice/client";
export { createKeyRing, formatKey, SluiceError } from "@sluice/core";
export { createResume } from "@sluice/resume";
export { withResumableFetch } from "@sluice/resume/client";
export { createSluice } from "@sluice/server";
export { createRedisStores } from "@sluice/state-redis";
export { createMemoryBackend } from "@sluice/storage";
export { createFsBackend, removeAbandonedWrites } from "@sluice/storage-fs";
export { createHandler } from "@sluice/transport-http";
export { createUploads } from "@sluice/uploads";
export { httpExchange } from "../../../packages/client/src/net/node/http-exchange.ts";
export { sendFiles } from "../../../packages/client/src/upload/send/send-files.ts";
export {
  createBlindSender,
  sendTimeouts,
} from "../../../packages/client/src/upload/send/sender.ts";
export { acceptTarget, ClientSession } from "../../../packages/client/src/upload/upload-target.ts";
export { runBridge } from "../../../packages/bridge/src/relay/run-bridge.ts";
export { createProcessUpstream } from "../../../packages/bridge/src/upstream/process-transport.ts";
