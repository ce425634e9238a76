// a separate entry: an application can load it when there is something to check
export { createSha256 } from "./bytes/sha256.ts";
