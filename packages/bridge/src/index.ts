export {
  createJsonSpooler,
  type JsonSpooler,
  type JsonSpoolerOptions,
  type MessageFraming,
} from "./spool/json-spooler.ts";
export type { SpoolLimits } from "./spool/message-spooler.ts";
export { rewriteSpooled } from "./spool/rewrite-spooled.ts";
export {
  openSpoolFolder,
  type SpoolFolder,
  type SpoolFolderOptions,
  type SpooledFile,
} from "./spool/files/spool-folder.ts";
export { spooledFetch } from "./spool/spooled-fetch.ts";
export { spooledLines } from "./spool/spooled-lines.ts";
export type { SpooledString, SpooledStrings } from "./spool/spooled-string.ts";
