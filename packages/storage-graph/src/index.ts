export type { GraphRoot } from "./lib/address.ts";
export { createGraphBackend, type GraphBackendOptions } from "./lib/graph-backend.ts";
export {
  createNotifications,
  type Notifications,
  type NotificationsOptions,
} from "./lib/notifications.ts";
export type { AccessToken, TokenCredential, TokenRequest } from "./lib/tokens.ts";
