import { createFileRow, type FileRow } from "./file-row.ts";
import { askOverview, isBegun, isStored, type BegunFile, type StoredFile } from "./overview.ts";
import { foundUpload, startUpload, type SendLimit, type Upload } from "./upload.ts";
import { findingOf, type Terms } from "./words.ts";

type Named = Parameters<typeof createFileRow>[0];

/** A file of a field. */
export interface Item {
  readonly row: FileRow;
  /** Absent for a file that is not sent. */
  upload?: Upload;
}

/** The files of a field, as they are shown and as the server has them. */
export interface FieldFiles {
  readonly items: readonly Item[];
  /** Sends a file, unless something is wrong with it. */
  add(file: File): void;
  /** Whether a picked file is here already, sent or on its way. */
  has(file: File): Promise<boolean>;
  /** Resumes a file that was begun and left, if it is this one. */
  takeUp(file: File): Promise<boolean>;
  /** Takes back every file, or those that are not sent. */
  clear(which: "all" | "unsent"): void;
  /** A file of another page, begun or in progress, is incomplete. */
  isWaiting(): boolean;
  /** Asks the server what is there and shows that. Rejects with `Interrupted` when it cannot say. */
  sync(): Promise<void>;
  /** Waits until the server has nothing of a file that was removed; false when that fails. */
  settle(): Promise<boolean>;
}

/** What a list of files works with. */
export interface FieldFilesOptions {
  readonly element: HTMLElement;
  readonly terms: Terms;
  /** Of the slot. */
  readonly url: string;
  readonly uploadId: string;
  readonly sendLimit: SendLimit;
  /** The server refused something: what it has may be other than what is shown. */
  readonly onTrouble: () => void;
  /** A user removed a file; `next` is one beside it. */
  readonly onRemoved: (next: Item | undefined) => void;
}

/** Makes the list of a slot, empty until the first `sync`. */
export function createFieldFiles(options: FieldFilesOptions): FieldFiles {
  const { element, terms, url, uploadId, sendLimit, onTrouble, onRemoved } = options;
  const items: Item[] = [];
  /** Files that are being taken back: until then the server counts them. */
  const removed = new Set<Upload>();
  let removals: Promise<unknown> = Promise.resolve();
  /** Ids of files that were removed here: the server may still show them for a moment. */
  const gone = new Set<string>();
  /** Ids of files that are not whole, as the server told last. */
  const begunFiles = new Map<string, BegunFile>();

  // a tab that goes on with a file says so: the others let go of it
  const channel = new BroadcastChannel(`sluice ${uploadId}`);
  const claim = (fileId: string): void => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no other origin
    channel.postMessage(fileId);
  };
  channel.addEventListener("message", ({ data }) => {
    const upload = itemOf(data)?.upload;
    if (!upload || upload.state.phase === "done") return;
    upload.leave(upload.state.sent);
    // from now on it is asked how far that tab is
    onTrouble();
  });

  const itemOf = (fileId: unknown): Item | undefined =>
    items.find(({ upload }) => upload?.fileId !== undefined && upload.fileId === fileId);

  function addItem(file: Named, about: { finding?: string | undefined; isFound?: boolean }): Item {
    const row = createFileRow(file, terms, {
      ...about,
      toggle: () => {
        const phase = item.upload?.state.phase;
        if (phase === "waiting" || phase === "sending") item.upload?.pause();
        else item.upload?.resume();
      },
      remove: () => remove(item),
    });
    const item: Item = { row };
    element.append(row.element);
    items.push(item);
    return item;
  }

  function add(file: File): void {
    const finding = findingOf(file, terms);
    const item = addItem(file, { finding });
    if (finding === undefined) item.upload = startUpload(file, url, optionsOf(item, file));
  }

  function optionsOf(item: Item, file?: File): Parameters<typeof startUpload>[2] {
    return {
      sendLimit,
      after: removals,
      async find(signal) {
        if (file) return findBegun(file, signal);
        // what was there is gone, and there is nothing to send again
        item.upload?.leave(0);
        onTrouble();
        throw signal.reason;
      },
      onChange: (changed) => {
        item.row.show(changed);
        if (changed.state.phase === "failed") onTrouble();
      },
    };
  }

  /** A file that was begun before, such as one whose first answer was lost. */
  async function findBegun(file: File, signal: AbortSignal): Promise<BegunFile | undefined> {
    const { unfinished } = await askOverview(url, signal);
    for (const begun of unfinished) {
      if (gone.has(begun.fileId) || !(await isBegun(file, begun))) continue;
      const other = itemOf(begun.fileId);
      if (other && other.upload?.state.phase !== "left") continue;
      if (other) drop(other);
      claim(begun.fileId);
      return begun;
    }
    return undefined;
  }

  function addFound(found: BegunFile | StoredFile): void {
    const item = addItem(found, { isFound: true });
    item.upload = foundUpload(found, url, optionsOf(item));
  }

  function goOn(item: Item, file: File, begun: BegunFile): void {
    claim(begun.fileId);
    item.upload?.leave(begun.received);
    item.upload = startUpload(file, url, optionsOf(item, file), begun);
  }

  async function sync(): Promise<void> {
    const before = items.filter(({ upload }) => isAtServer(upload));
    const { files, unfinished } = await askOverview(url, new AbortController().signal);
    const there = new Set([...files, ...unfinished].map(({ fileId }) => fileId));
    for (const stored of files) {
      if (gone.has(stored.fileId)) continue;
      const item = itemOf(stored.fileId);
      if (item) item.upload?.settle(stored);
      else addFound(stored);
    }
    begunFiles.clear();
    for (const begun of unfinished) {
      const item = itemOf(begun.fileId);
      begunFiles.set(begun.fileId, begun);
      if (!item && begun.received > 0 && !gone.has(begun.fileId)) addFound(begun);
      if (item?.upload?.state.phase !== "left") continue;
      const wasWhole = item.upload.state.sent === begun.size;
      if (wasWhole && begun.received === begun.size) item.upload.resume();
      else item.upload.leave(begun.received);
    }
    // removed in another tab
    for (const item of before)
      if (isAtServer(item.upload) && !there.has(item.upload?.fileId ?? "")) drop(item);
  }

  /** Shows it no longer; what the server has of it stays. */
  function drop(item: Item): void {
    const at = items.indexOf(item);
    if (at >= 0) items.splice(at, 1);
    item.row.element.remove();
  }

  /** Takes a file back, as its button says. */
  function remove(item: Item): void {
    const at = items.indexOf(item);
    if (at < 0) return;
    items.splice(at, 1);
    dismiss(item);
    onRemoved(items[at] ?? items[at - 1]);
  }

  async function has(file: File): Promise<boolean> {
    for (const { upload } of items) {
      const { state, fileId = "" } = upload ?? {};
      if (state?.phase === "done" && (await isStored(file, { ...state.receipt, fileId })))
        return true;
      const isUnderWay = ["waiting", "sending", "paused", "retrying"].includes(state?.phase ?? "");
      const other = upload?.file as File | undefined;
      const isSame = (["name", "size", "lastModified"] as const).every(
        (fact) => other?.[fact] === file[fact],
      );
      if (isUnderWay && isSame) return true;
    }
    return false;
  }

  async function takeUp(file: File): Promise<boolean> {
    for (const item of items) {
      const begun = begunFiles.get(item.upload?.fileId ?? "");
      if (item.upload?.state.phase !== "left" || !begun) continue;
      if (!(await isBegun(file, begun))) continue;
      goOn(item, file, begun);
      return true;
    }
    return false;
  }

  function dismiss({ upload, row }: Item): void {
    row.element.remove();
    if (!upload) return;
    if (upload.fileId !== undefined) gone.add(upload.fileId);
    removed.add(upload);
    removals = Promise.all([removals, takeBack(upload)]);
  }

  async function takeBack(upload: Upload): Promise<void> {
    if (await upload.remove()) removed.delete(upload);
    // an answer may name it, and keep it
    else onTrouble();
  }

  return {
    items,
    add,
    has,
    takeUp,
    clear(which) {
      for (const item of items.filter(({ upload }) => which === "all" || !upload)) {
        drop(item);
        dismiss(item);
      }
    },
    isWaiting() {
      const others = [...begunFiles.keys()].filter(
        (fileId) => !itemOf(fileId) && !gone.has(fileId),
      );
      return others.length > 0 || items.some(({ upload }) => upload?.state.phase === "left");
    },
    sync,
    async settle() {
      await removals;
      await Promise.all([...removed].map(takeBack));
      return removed.size === 0;
    },
  };
}

/** Whether the server has, or had, what is shown of it. */
function isAtServer(upload: Upload | undefined): boolean {
  return upload?.state.phase === "done" || upload?.state.phase === "left";
}
