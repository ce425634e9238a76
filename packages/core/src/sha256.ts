/**
 * SHA-256 by itself, for the client to load once there is something to check. Outside of the promise of versions.
 * @module
 */
export { createSha256 } from "./bytes/sha256.ts";
