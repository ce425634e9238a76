/** Content that is computed when it is read, so that its size costs no memory. */
interface ItemContent {
  /** Bytes of the whole file. */
  readonly size: number;
  /** The bytes `[start, end)`; always the same ones for the same offsets. */
  read(start: number, end: number): Uint8Array;
}

/** What a file holds: bytes (copied), text (as UTF-8), or a generator of bytes. */
export type EmulatedContent = Uint8Array | string | ItemContent;

/** What is different about a file. */
export interface EmulatedMeta {
  readonly mimeType?: string;
  /** What `driveItem.size` says, when that is not the number of bytes that a download gives. */
  readonly reportedSize?: number;
  /** Flagged: it is listed with a `malware` facet and refused with 403. */
  readonly malware?: boolean;
}

/** A file, folder, package or shortcut. */
export interface Item {
  readonly id: string;
  readonly driveId: string;
  name: string;
  parent: Item | undefined;
  readonly kind: "file" | "folder" | "package" | "shortcut";
  readonly children: Map<string, Item>;
  content: ItemContent;
  meta: EmulatedMeta;
  hash: string | undefined;
  /** Counts all changes, and those of the content. */
  eVersion: number;
  cVersion: number;
  /** Place in the drive's sequence of changes. */
  sequence: number;
  deleted: boolean;
  modifiedAt: number;
  readonly versions: { readonly id: string; readonly content: ItemContent }[];
  /** What a shortcut leads to. */
  readonly target: Item | undefined;
}

/** Changes a drive past its API, as other people would. Paths are relative to its root. */
export interface EmulatedDrive {
  readonly id: string;
  readonly type: "personal" | "business" | "documentLibrary";
  /** Stores a file with all its folders, replacing an earlier one; gives its id. */
  put(path: string, content: EmulatedContent, meta?: EmulatedMeta): string;
  /** Makes a folder and those above it; gives its id. */
  putFolder(path: string): string;
  /** Makes a package such as a OneNote notebook; gives its id. */
  putPackage(path: string): string;
  /** Makes a shortcut (`remoteItem`) to an item of another drive; gives its id. */
  putShortcut(path: string, drive: EmulatedDrive, targetPath: string): string;
  /** Changes metadata and not the content: a new eTag, the same cTag. */
  touch(path: string): void;
  /** Gives an item another name in the same folder. */
  rename(path: string, name: string): void;
  /** Removes an item and everything below it. */
  remove(path: string): void;
}

/** The drive as its own API sees it. */
export interface DriveState extends EmulatedDrive {
  readonly root: Item;
  readonly sequence: () => number;
  /** Changes before this place are forgotten. */
  readonly oldest: () => number;
  forgetChanges(): void;
  readonly items: ReadonlyMap<string, Item>;
  /** The item at the segments below another; names know no case. */
  find(from: Item, segments: readonly string[]): Item | undefined;
  store(from: Item, segments: readonly string[], content: ItemContent, meta?: EmulatedMeta): Item;
  renameItem(item: Item, name: string): void;
  removeItem(item: Item): void;
}

const none: ItemContent = { size: 0, read: () => new Uint8Array() };

/** Creates an empty drive. `onChange` is told after every change. */
export function createDrive(
  id: string,
  type: EmulatedDrive["type"],
  { now, onChange }: { readonly now: () => number; readonly onChange: () => void },
): DriveState {
  const items = new Map<string, Item>();
  let sequence = 0;
  let oldest = 0;
  let made = 0;

  const make = (kind: Item["kind"], name: string, parent?: Item, target?: Item): Item => {
    const number = String(++made).padStart(8, "0");
    const item: Item = {
      driveId: id,
      id: type === "personal" ? `${id.toUpperCase()}!${100 + made}` : `01EMULATED${number}`,
      name,
      parent,
      kind,
      children: new Map(),
      content: none,
      meta: {},
      hash: undefined,
      eVersion: 0,
      cVersion: 0,
      sequence: 0,
      deleted: false,
      modifiedAt: now(),
      versions: [],
      target,
    };
    items.set(item.id, item);
    parent?.children.set(fold(name), item);
    return item;
  };
  const change = (item: Item, how: "content" | "metadata"): void => {
    item.eVersion++;
    if (how === "content") item.cVersion++;
    item.modifiedAt = now();
    item.sequence = ++sequence;
    onChange();
  };
  const create = (kind: Item["kind"], name: string, parent: Item, target?: Item): Item => {
    const item = make(kind, name, parent, target);
    change(item, "content");
    return item;
  };
  const find = (from: Item, segments: readonly string[]): Item | undefined => {
    let at: Item | undefined = from;
    // paths lead through shortcuts into other drives
    for (const segment of segments) at = (at?.target ?? at)?.children.get(fold(segment));
    return at;
  };
  const makeFolders = (from: Item, segments: readonly string[]): Item => {
    let at = from;
    for (const name of segments) at = at.children.get(fold(name)) ?? create("folder", name, at);
    return at;
  };
  const removeItem = (item: Item): void => {
    for (const child of item.children.values()) removeItem(child);
    item.parent?.children.delete(fold(item.name));
    item.deleted = true;
    change(item, "metadata");
  };
  const store: DriveState["store"] = (from, segments, content, meta = {}) => {
    const name = segments.at(-1) ?? "";
    const parent = makeFolders(from, segments.slice(0, -1));
    const known = parent.children.get(fold(name));
    const item = known ?? make("file", name, parent);
    if (known) item.versions.unshift({ id: `${item.cVersion}.0`, content: item.content });
    item.content = content;
    item.meta = meta;
    // the hash of what is generated would cost as much as reading it
    item.hash =
      content.size <= 8 * 1024 * 1024 ? quickXorHash(content.read(0, content.size)) : undefined;
    change(item, "content");
    return item;
  };
  const root = make("folder", "root");
  change(root, "content");

  const at = (path: string): Item => {
    const item = find(root, path.split("/"));
    if (item === undefined) throw new Error(`emulator: there is no "${path}"`);
    return item;
  };
  const putNew = (path: string, kind: Item["kind"], target?: Item): string => {
    const segments = path.split("/");
    const parent = makeFolders(root, segments.slice(0, -1));
    return create(kind, segments.at(-1) ?? "", parent, target).id;
  };
  const renameItem = (item: Item, name: string): void => {
    item.parent?.children.delete(fold(item.name));
    item.name = name;
    item.parent?.children.set(fold(name), item);
    change(item, "metadata");
  };

  return {
    id,
    type,
    root,
    items,
    sequence: () => sequence,
    oldest: () => oldest,
    forgetChanges: () => void (oldest = ++sequence),
    find,
    store,
    renameItem,
    removeItem,
    put: (path, content, meta) => store(root, path.split("/"), toGenerated(content), meta).id,
    putFolder: (path) => makeFolders(root, path.split("/")).id,
    putPackage: (path) => putNew(path, "package"),
    putShortcut: (path, drive, targetPath) =>
      putNew(
        path,
        "shortcut",
        (drive as DriveState).find((drive as DriveState).root, targetPath.split("/")),
      ),
    touch: (path) => change(at(path), "metadata"),
    rename: (path, name) => renameItem(at(path), name),
    remove: (path) => removeItem(at(path)),
  };
}

/** Bytes as content; copied, so that later changes do not show. */
export function toGenerated(content: EmulatedContent): ItemContent {
  if (typeof content === "string") content = new TextEncoder().encode(content);
  if (!(content instanceof Uint8Array)) return content;
  const bytes = content.slice();
  return { size: bytes.byteLength, read: (start, end) => bytes.subarray(start, end) };
}

/** How drives compare names. */
export function fold(name: string): string {
  return name.toLowerCase();
}

/** Bits of QuickXorHash, and by how many each byte is shifted further than the one before. */
const width = 160n;
const shift = 11n;

/**
 * Microsoft's QuickXorHash in base64: each byte is xored into 160 bits, 11 bits further on, around
 * the end; the length is xored into the last 64 bits. Not cryptographic.
 */
export function quickXorHash(bytes: Uint8Array): string {
  // bytes whose places are the same (every 160th) meet each other first
  const columns = new Uint8Array(Number(width));
  for (let i = 0; i < bytes.length; i++) columns[i % columns.length]! ^= bytes[i]!;
  const mask = (1n << width) - 1n;
  let hash = 0n;
  for (const [i, byte] of columns.entries()) {
    const place = (BigInt(i) * shift) % width;
    const moved = BigInt(byte) << place;
    hash ^= (moved & mask) | (moved >> width);
  }
  hash ^= BigInt(bytes.length) << (width - 64n);
  const out = new Uint8Array(Number(width / 8n));
  for (let i = 0; i < out.length; i++) out[i] = Number((hash >> BigInt(8 * i)) & 0xffn);
  return Buffer.from(out).toString("base64");
}
