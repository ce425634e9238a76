/**
 * The layer below `resume` of `createHandler`. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { withResume } from "./server/with-resume.ts";
