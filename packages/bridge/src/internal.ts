/**
 * What the command and the tests build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { SignIn } from "./upstream/oauth/sign-in.ts";
export { serverFetch } from "./upstream/connections.ts";
export { rewriteSpooled } from "./spool/rewrite-spooled.ts";
export {
  openSpoolFolder,
  type SpoolFolder,
  type SpoolFolderOptions,
  type SpooledFile,
} from "./spool/files/spool-folder.ts";
export { spooledFetch } from "./spool/json-spooler.ts";
export { examine, type Diagnosis } from "./doctor/diagnose.ts";
export type { SeenServer } from "./doctor/evidence.ts";
export {
  openSaving,
  type SavedFiles,
  type Saving,
  type SavingBounds,
} from "./saved/saved-files.ts";
