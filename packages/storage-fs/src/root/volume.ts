import { open, readlink } from "node:fs";
import { basename } from "node:path";
import { promisify } from "node:util";
import { systemCode } from "./fs-error.ts";

// A ConfigMap, a Secret or a projected volume, as Kubernetes mounts it: the files are in a folder
// `..2024_x`, the link `..data` leads to that folder, and each name beside it is a link `name ->
// ..data/name`. An update makes another folder and replaces `..data`.

const openAsync = promisify(open);
const readlinkAsync = promisify(readlink);

/** Errors of opening a link that must not be followed; ENOTDIR if a folder was wanted, EMLINK on FreeBSD. */
const linkCodes: ReadonlySet<string | undefined> = new Set(["ELOOP", "ENOTDIR", "EMLINK"]);

/** True for a link whose text is that of a name in a volume. Its location is known once it is open. */
export async function isVolumeLink(path: string): Promise<boolean> {
  return (await readlinkAsync(path).catch(() => "")) === `..data/${basename(path)}`;
}

/**
 * Opens the file or folder that a name of a volume leads to, after the `error` of an opening that
 * follows no links; rejects with that error if `path` is not such a name. The caller checks the
 * location of the descriptor: the links may have changed.
 */
export async function openVolumeLink(path: string, flags: number, error: unknown): Promise<number> {
  if (!linkCodes.has(systemCode(error)) || !(await isVolumeLink(path))) throw error;
  return openAsync(path, flags);
}

/** True if `key` is the name in a volume of the file or folder whose real location is `realKey`. */
export function isVolumeName(key: string, realKey: string): boolean {
  return realKey !== key && realKey.replace(/(^|\/)\.\.[^/]+\//, "$1") === key;
}
