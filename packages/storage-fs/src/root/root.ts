import {
  closeSync,
  constants,
  openSync,
  readlinkSync,
  realpathSync,
  statfsSync,
  statSync,
} from "node:fs";
import { sep } from "node:path";
import { SluiceError } from "@sluice/core";
import {
  beginOperation,
  type OperationOptions,
  unlistedReason,
  type UnlistedReason,
} from "@sluice/storage/plugin";
import { systemCode, toSluiceError } from "./fs-error.ts";
import { isHidden, isWindowsTrap } from "./names.ts";

/** The folder that is served. Nothing outside it can be reached through it. */
export interface FsRoot {
  /** Canonical path of the folder, resolved once. */
  readonly path: string;
  /** {@link path} with a separator at its end: the prefix of every path inside. */
  readonly inside: string;
  /** Names that start with a dot can be seen and opened. */
  readonly dotfiles: boolean;
  /** A descriptor can be asked where it leads (`/proc/self/fd`), so that what was opened is proven without a race. */
  readonly namesDescriptors: boolean;
  /** Device number when it is a disk of this machine: there `fstat` and `close` never wait. */
  readonly localDevice: bigint | undefined;
  /** Paths on that disk which can be opened without waiting for it. */
  readonly warmPaths: WarmPaths;
}

/** File systems on this machine's own disks and memory (`man 2 statfs`): ext, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS. */
const localFileSystems: ReadonlySet<number> = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010,
]);

/** Resolves the folder. Throws a `SluiceError` when it is missing, unreadable or no folder. */
export function createRoot(folder: string, dotfiles: boolean): FsRoot {
  const operation = `fs: root ${JSON.stringify(folder)}`;
  try {
    const path = realpathSync.native(folder);
    const stats = statSync(path, { bigint: true });
    if (!stats.isDirectory()) throw new SluiceError("unsupported", `${operation}: not a folder`);
    const onLinux = process.platform === "linux";
    return {
      path,
      inside: path.endsWith(sep) ? path : path + sep,
      dotfiles,
      namesDescriptors: descriptorsHaveNames(path),
      localDevice: onLinux && localFileSystems.has(statfsSync(path).type) ? stats.dev : undefined,
      warmPaths: createWarmPaths(),
    };
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw toSluiceError(error, operation);
    const what = `${operation}: it is not there (ENOENT); make the folder, or name another`;
    throw new SluiceError("not_found", what, { cause: error });
  }
}

/** Where an open descriptor leads (Linux); ends in " (deleted)" once that name is gone. */
export function nameOfDescriptor(fd: number): string {
  return readlinkSync(`/proc/self/fd/${fd}`);
}

/** True on Linux, but where /proc is not mounted, or shows other names than this process sees. */
export function descriptorsHaveNames(path: string): boolean {
  if (process.platform !== "linux") return false;
  const fd = openSync(path, constants.O_RDONLY);
  try {
    return nameOfDescriptor(fd) === path;
  } catch {
    return false;
  } finally {
    closeSync(fd);
  }
}

/** Why a file of that key can be neither listed nor opened; `undefined` if it can. */
export function unservableReason(root: FsRoot, key: string): "hidden" | UnlistedReason | undefined {
  if (isHidden(key, root.dotfiles)) return "hidden";
  return (
    unlistedReason(key) ??
    (process.platform === "win32" && isWindowsTrap(key) ? "reserved" : undefined)
  );
}

/**
 * Begins a call (see `beginOperation`). Throws `invalid_argument` also for a name with another meaning on this system,
 * and `not_found` for a hidden one.
 */
export function beginCall(
  root: FsRoot,
  method: string,
  key: string,
  options: OperationOptions,
): string {
  const operation = beginOperation(`fs: ${method}`, key, options);
  if (process.platform === "win32" && isWindowsTrap(key))
    throw new SluiceError(
      "invalid_argument",
      `${operation}: Windows gives this name another meaning`,
    );
  if (isHidden(key, root.dotfiles)) throw new SluiceError("not_found", `${operation}: hidden`);
  return operation;
}

/** The path of a key that {@link beginCall} took. */
export function pathOf(root: FsRoot, key: string): string {
  return root.inside + (sep === "/" ? key : key.replaceAll("/", sep));
}

/** The key of a canonical path, or `undefined` when it lies outside the root. */
export function toKey(root: FsRoot, path: string): string | undefined {
  // with the separator, or /data would let /data-secret in
  if (!path.startsWith(root.inside)) return undefined;
  const rest = path.slice(root.inside.length);
  return sep === "/" ? rest : rest.replaceAll(sep, "/");
}

/** The path of a directory, given as "" for the root or as "a/b/". */
export function toDirectoryPath(root: FsRoot, key: string): string {
  if (key === "") return root.path;
  const path = root.inside + key.slice(0, -1);
  return sep === "/" ? path : path.replaceAll("/", sep);
}

const maxPaths = 1000;
const lastMs = 10_000;

/** Paths that were opened a moment ago, so that the system still has the way to them in memory. */
interface WarmPaths {
  has(path: string): boolean;
  add(path: string): void;
}

/** Remembers at most 1000 paths, each for at most 10 s. */
function createWarmPaths(): WarmPaths {
  const paths = new Set<string>();
  let since = 0;
  const isOver = (): boolean => performance.now() - since >= lastMs;
  return {
    has: (path) => paths.has(path) && !isOver(),
    add(path) {
      if (paths.size >= maxPaths || isOver()) {
        paths.clear();
        since = performance.now();
      }
      paths.add(path);
    },
  };
}
