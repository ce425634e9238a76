/**
 * SEP-2631, File Objects and Transfer: a draft, which this entry follows. It may change in a minor version.
 * @module
 */
export { createFileTransfer, type FileTransfer } from "./files-sep-2631/file-transfer.ts";
