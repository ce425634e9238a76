import { sanitizeFileName } from "@sluice/core/internal";

/** Longest segment, in UTF-8 bytes: the limit of file systems. */
const maxSegmentBytes = 255;
/** Longest path of a folder. With a file's name a path has at most 900 bytes: macOS takes 1,024 in all. */
const maxFolderBytes = 640;
/** Room for ` (2)` and up to nine digits. */
const numberBytes = 12;
/** Longer than this, what follows the last dot is part of the name. */
const maxExtensionBytes = 32;

const encoder = new TextEncoder();

/**
 * Makes a function that gives each file of an archive its path, from its key below the prefix. Paths are safe
 * to extract on any system and unique there: no two of them differ only by case, Unicode form or unseen
 * characters, and none is a folder of another. A name that is taken gets a number, as in `a (2).txt`. Files
 * that are too deep move up.
 */
export function uniquePaths(): (relativeKey: string) => string {
  const files = new Set<string>();
  const folders = new Set<string>();
  // the last number by the name that was taken: without it, each file would try all the numbers again
  const numbers = new Map<string, number>();
  const movedFolders = new Map<string, string>();

  const enterFolder = (parent: string, name: string): string => {
    const path = parent + name;
    const folded = fold(path);
    let free = path;
    if (files.has(folded)) {
      free = movedFolders.get(folded) ?? numbered(parent, name, (other) => files.has(other));
      movedFolders.set(folded, free);
    }
    folders.add(free === path ? folded : fold(free));
    return `${free}/`;
  };

  const numbered = (parent: string, name: string, isTaken: (folded: string) => boolean): string => {
    const [stem, extension] = splitName(name);
    const base = fold(`${parent}${stem}/${extension}`);
    for (let number = numbers.get(base) ?? 2; ; number++) {
      const path = `${parent}${stem} (${number})${extension}`;
      if (isTaken(fold(path))) continue;
      numbers.set(base, number);
      return path;
    }
  };

  const isUsed = (folded: string): boolean => files.has(folded) || folders.has(folded);

  const enter = (folderKey: string): string => {
    let folder = "";
    if (folderKey === "") return folder;
    for (const next of folderKey.split("/").map(safeSegment)) {
      if (byteLength(folder) + byteLength(next) > maxFolderBytes) break;
      folder = enterFolder(folder, next);
    }
    return folder;
  };

  // a folder keeps its path, and listings give its files one after the other
  let last = { key: "", path: "" };

  return (relativeKey) => {
    const slash = relativeKey.lastIndexOf("/");
    const folderKey = relativeKey.slice(0, Math.max(0, slash));
    if (folderKey !== last.key) last = { key: folderKey, path: enter(folderKey) };
    const name = safeSegment(relativeKey.slice(slash + 1));
    let path = last.path + name;
    if (isUsed(fold(path))) path = numbered(last.path, name, isUsed);
    files.add(fold(path));
    return path;
  };
}

/** The name that a Windows volume may give a file with a longer one, such as `REPORT~1.TXT`. */
const shortName = /^[^.]{1,6}~\d+(?:\.[^.]{0,3})?$/;

/** A name that no system reads as anything else, no shell as an option or a home folder, and no volume as a short name. */
function safeSegment(segment: string): string {
  const name = sanitizeFileName(segment);
  return shortName.test(name) ? name.replaceAll("~", "_") : name;
}

/** Equal for paths that are one file on a volume that ignores case, Unicode form and unseen characters. */
function fold(path: string): string {
  // lower case first: upper case leaves a capital sharp s, and lower case a final sigma
  return isPlain.test(path)
    ? path.toLowerCase()
    : path
        .normalize("NFD")
        .replace(unseen, "")
        .toLowerCase()
        .toUpperCase()
        .normalize("NFD")
        .toLowerCase();
}

const isPlain = /^[\u0020-\u007e]*$/;
const unseen = /\p{Default_Ignorable_Code_Point}/gu;

/** A stem that leaves room for a number, and the extension with its dot. */
function splitName(name: string): [stem: string, extension: string] {
  const dot = name.lastIndexOf(".");
  const tail = dot > 0 ? name.slice(dot) : "";
  const extension = byteLength(tail) <= maxExtensionBytes ? tail : "";
  const stem = name.slice(0, name.length - extension.length);
  return [cut(stem, maxSegmentBytes - numberBytes - byteLength(extension)), extension];
}

function cut(text: string, room: number): string {
  if (byteLength(text) <= room) return text;
  let shortened = "";
  let usedBytes = 0;
  for (const point of text) {
    usedBytes += byteLength(point);
    if (usedBytes > room) break;
    shortened += point;
  }
  return shortened;
}

function byteLength(text: string): number {
  return isPlain.test(text) ? text.length : encoder.encode(text).length;
}
