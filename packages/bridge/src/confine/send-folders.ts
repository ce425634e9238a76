import { lstat, realpath } from "node:fs/promises";
import { isAbsolute, join, relative, sep } from "node:path";
import { SluiceError } from "@sluice/core";
import { diskFault } from "./disk-fault.ts";
import { namesOf } from "./plain-path.ts";

/** A file that may be sent. */
export interface SendableFile {
  /** Absolute, without links. */
  readonly path: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
}

/** The folders that a user named for sending. */
export interface SendFolders {
  /** Absolute, without links. */
  readonly roots: readonly string[];
  /**
   * Finds a file: `path` is relative to one of the folders, or absolute below one. Rejects with `not_found`,
   * `permission_denied` outside of them, or `untrusted` where a part of the path is a link.
   */
  find(path: string): Promise<SendableFile>;
}

/** Opens folders for sending. Rejects with `not_found` when one is not there. */
export async function openSendFolders(folders: readonly string[]): Promise<SendFolders> {
  const roots = await Promise.all(
    folders.map((folder) =>
      realpath(folder).catch((error) => {
        throw diskFault(error, folder);
      }),
    ),
  );
  return {
    roots,
    async find(path) {
      const places = isAbsolute(path)
        ? await belowRoots(path, folders, roots)
        : roots.map((root) => join(root, ...namesOf(path)));
      for (const place of places) {
        const found = await sendable(place);
        if (found) return found;
      }
      if (places.length > 0) throw new SluiceError("not_found", "bridge: there is no such file");
      throw new SluiceError(
        "permission_denied",
        `bridge: files are sent from below ${roots.join(" and ")} only; put the file there`,
      );
    },
  };
}

/** An absolute path, as it lies below folders as they were named or as they are. */
async function belowRoots(
  path: string,
  folders: readonly string[],
  roots: readonly string[],
): Promise<string[]> {
  const places: string[] = [];
  for (const [at, root] of roots.entries()) {
    const inside = [root, folders[at] as string]
      .map((folder) => relative(folder, path))
      .find(
        (rest) => rest !== "" && rest !== ".." && !rest.startsWith(`..${sep}`) && !isAbsolute(rest),
      );
    if (inside !== undefined) places.push(join(root, ...namesOf(inside.split(sep).join("/"))));
  }
  return places;
}

async function sendable(path: string): Promise<SendableFile | undefined> {
  const real = await realpath(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw diskFault(error);
  });
  if (real === undefined) return undefined;
  if (real !== path)
    throw new SluiceError(
      "untrusted",
      "bridge: a part of that path is a link; pass the file itself",
    );
  const info = await lstat(real);
  if (!info.isFile())
    throw new SluiceError("invalid_argument", "bridge: that is no file; pass the path of one");
  return { path: real, name: real.slice(real.lastIndexOf(sep) + 1), size: info.size };
}
