import { localFileName } from "@sluice/core/internal";

/**
 * A URI as people write it: each part between slashes percent-decoded where it can be, without an encoded slash becoming one.
 */
export function readableUri(uri: string): string {
  return uri.split("/").map(decoded).join("/");
}

function decoded(part: string): string {
  if (!part.includes("%")) return part;
  try {
    return part.split(/(%2f)/i).map(decodedUnlessSlash).join("");
  } catch {
    return part;
  }
}

function decodedUnlessSlash(text: string): string {
  return /^%2f$/i.test(text) ? text : decodeURIComponent(text);
}

/** A glob of URI text as one of readable text: what was percent-encoded in it stands for itself. */
export function readableGlob(glob: string): string {
  return glob.replaceAll(/(?:%[0-9a-f]{2})+/gi, (sequence) =>
    decoded(sequence).replaceAll(/[\\*?!+@(){}[\]|]/g, "\\$&"),
  );
}

/** What follows scheme and authority of a readable URI: `docs/a.pdf` of `files://local/docs/a.pdf`. */
export function pathOfReadable(readable: string): string {
  return readable.replace(/^[a-z][a-z0-9+.-]*:(?:\/\/[^/]*\/?)?/i, "");
}

/** True for text that begins with a scheme, as every URI does. */
export function hasScheme(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:/i.test(text);
}

/**
 * A path below the output folder for a path that a server chose: its parts are names that this system may save under, so that
 * it leads neither out of the folder nor to a hidden file.
 */
export function localPath(path: string): string {
  const parts = path.split("/").filter((part) => part !== "");
  return parts.map((part) => localFileName(part.replaceAll("\\", "_"))).join("/");
}
