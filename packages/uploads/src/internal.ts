/**
 * What the other packages of Sluice, and its tests, build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { withUploads, type UploadsHost } from "./options/create-uploads.ts";
