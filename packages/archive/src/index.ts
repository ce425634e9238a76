export type { ArchiveFile } from "./entries/read-entries.ts";
export { archiveOf, type ArchiveFormat, type ArchiveOfOptions } from "./formats/archive-of.ts";
export {
  archiveProvider,
  type ArchiveHost,
  type ArchiveOptions,
  type ArchiveProvider,
  type ArchiveRequest,
  type ArchiveWalk,
  type WalkedFile,
} from "./provider/archive.ts";
