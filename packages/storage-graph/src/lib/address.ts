import { SluiceError } from "@sluice/core";
import { beginOperation, checkKey, type OperationOptions } from "@sluice/storage/plugin";

/** The folder whose files a backend serves. */
export type GraphRoot = { readonly id: string } | { readonly path: string };

/** Paths of the API for one root of one drive. */
export class Address {
  readonly driveId: string;
  readonly #drive: string;
  readonly #anchor: string;
  readonly #folders: readonly string[];

  /** A root path is split into segments; each is encoded by itself. An impossible one throws `TypeError`. */
  constructor(driveId: string, root: GraphRoot | undefined) {
    this.driveId = driveId;
    this.#drive = `/drives/${encodeURIComponent(driveId)}`;
    this.#anchor =
      root !== undefined && "id" in root ? this.toItem(root.id) : `${this.#drive}/root`;
    this.#folders =
      root !== undefined && "path" in root ? root.path.split("/").filter(Boolean) : [];
    const fault = this.#folders.length > 0 ? checkGraphKey(this.#folders.join("/")) : undefined;
    if (fault !== undefined) throw new TypeError(`graph: the path of the root ${fault}`);
  }

  /** The item of a key; the root itself for "". `action` begins with a slash. */
  toKey(key: string, action = ""): string {
    const path = [...this.#folders, ...key.split("/").filter(Boolean)]
      .map((segment) => encodeURIComponent(segment))
      .join("/");
    // "/root:/:" is not an address, nor is a colon with nothing after it
    if (path === "") return `${this.#anchor}${action}`;
    return `${this.#anchor}:/${path}${action === "" ? "" : `:${action}`}`;
  }

  /** An item by id: ids survive renames, so what was described is what is read. */
  toItem(id: string, action = ""): string {
    return `${this.#drive}/items/${encodeURIComponent(id)}${action}`;
  }

  /** Changes of the whole drive: business drives have them only there. */
  get delta(): string {
    return `${this.#drive}/root/delta`;
  }
}

/**
 * What is wrong with a key here, or `undefined`. OneDrive reserves some characters, and does
 * not keep spaces and dots at the ends of names, so that such a key could name another object.
 */
export function checkGraphKey(key: string): string | undefined {
  return checkKey(key) ?? checkNames(key);
}

function checkNames(key: string): string | undefined {
  if (/["*:<>?|]/.test(key)) return 'has one of " * : < > ? |, which OneDrive reserves';
  if (/(?:^|\/) |[ .](?:\/|$)/.test(key))
    return "has a name that begins or ends with a space or ends with a dot";
  return undefined;
}

/** Begins a call (see `beginOperation`). A key that a drive cannot have is also `invalid_argument`. */
export function beginCall(method: string, key: string, options: OperationOptions): string {
  const operation = beginOperation(`graph: ${method}`, key, options);
  const finding = checkNames(key);
  if (finding !== undefined)
    throw new SluiceError("invalid_argument", `${operation}: the key ${finding}`);
  return operation;
}
