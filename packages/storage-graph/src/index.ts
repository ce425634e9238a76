export {
  createGraphBackend,
  type GraphBackendOptions,
  type GraphRoot,
} from "./lib/graph-backend.ts";
export {
  createNotifications,
  type Notifications,
  type NotificationsOptions,
} from "./lib/notifications.ts";
export type { AccessToken, TokenCredential, TokenRequest } from "./lib/tokens.ts";
