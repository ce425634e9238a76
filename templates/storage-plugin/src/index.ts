export { createWebBackend, type WebBackendOptions } from "./web-backend.ts";
