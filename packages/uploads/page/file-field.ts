import { announce, byId, tell } from "./elements.ts";
import { createFileRow, type FileRow } from "./file-row.ts";
import type { Receipt } from "./transfer.ts";
import { startUpload, type Turns, type Upload } from "./upload.ts";
import { findingOf, type Terms } from "./words.ts";

/** A field that takes files. */
export interface FileField {
  readonly name: string;
  /** Something is on its way. */
  isBusy(): boolean;
  /** What keeps it from being done; said beside the field as well. */
  check(): string | undefined;
  focus(): void;
  /** What its part of the answer is; `undefined` when there is none. */
  value(): AnsweredFile | readonly AnsweredFile[] | undefined;
  /** Waits until the server has nothing of a file that was removed, else it would not take the answer; false when that fails. */
  settle(): Promise<boolean>;
  /** Ends everything that is under way. */
  stop(): void;
}

interface AnsweredFile extends Receipt {
  readonly uploadId: string;
}

interface Item {
  readonly row: FileRow;
  /** Absent for a file that is not sent. */
  readonly upload?: Upload;
}

/** Brings the section of a field to life. */
export function createFileField(section: HTMLElement, turns: Turns): FileField {
  const { id = "", name = "", title = "", url = "", uploadId = "" } = section.dataset;
  const {
    accept = "[]",
    acceptText = "",
    maxBytes,
    maxFiles = "1",
    multiple,
    required,
  } = section.dataset;
  const terms: Terms = {
    title,
    accept: JSON.parse(accept) as string[],
    acceptText,
    maxBytes: maxBytes ? Number(maxBytes) : Infinity,
    maxFiles: Number(maxFiles),
  };
  const input = byId(id) as HTMLInputElement;
  const error = byId(`${id}-error`);
  const list = section.querySelector("ul")!;
  const items: Item[] = [];
  /** Files that are being taken back: until then the server counts them. */
  const removed = new Set<Upload>();
  let removals: Promise<unknown> = Promise.resolve();

  function complain(text: string | undefined): void {
    tell(error, text);
    section.toggleAttribute("data-wrong", text !== undefined);
    if (text === undefined) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
  }

  function add(file: File): void {
    const finding = findingOf(file, terms);
    let upload: Upload | undefined;
    const row = createFileRow(file, terms, {
      finding,
      toggle: () => {
        const phase = upload?.state.phase;
        if (phase === "waiting" || phase === "sending") upload?.pause();
        else upload?.resume();
      },
      remove: () => removeItem(item, true),
    });
    list.append(row.element);
    if (finding === undefined)
      upload = startUpload(file, url, {
        turns,
        after: removals,
        onChange: (changed) => row.show(changed),
      });
    const item: Item = upload ? { row, upload } : { row };
    items.push(item);
  }

  function removeItem(item: Item, moveFocus: boolean): void {
    const at = items.indexOf(item);
    if (at < 0) return;
    items.splice(at, 1);
    dismiss(item);
    complain(undefined);
    if (!moveFocus) return;
    announce("Removed.");
    const next = items[at] ?? items[at - 1];
    if (next) next.row.focus();
    else input.focus();
  }

  function take(files: readonly File[]): void {
    complain(undefined);
    if (files.length === 0) return;
    // a field for one file: another choice replaces the first
    if (terms.maxFiles === 1) for (const item of items.splice(0)) dismiss(item);
    else for (const item of items.filter(({ upload }) => !upload)) removeItem(item, false);
    const room = terms.maxFiles - items.length;
    for (const file of files.slice(0, room)) add(file);
    if (files.length <= room) return;
    const most = terms.maxFiles === 1 ? "One file" : `At most ${terms.maxFiles} files`;
    complain(`${most} can be sent here; ${files.length - room} more were left out.`);
    announce(error.textContent);
  }

  function dismiss({ upload, row }: Item): void {
    row.element.remove();
    if (!upload) return;
    removed.add(upload);
    removals = Promise.all([removals, takeBack(upload)]);
  }

  async function takeBack(upload: Upload): Promise<void> {
    if (await upload.remove()) removed.delete(upload);
  }

  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])];
    // so that the same file can be chosen again
    input.value = "";
    take(files);
  });
  acceptDrops(section, (files) => take(files));

  return {
    name,
    isBusy: () =>
      items.some(({ upload }) => upload && !["done", "failed"].includes(upload.state.phase)),
    check() {
      const finding = findingIn(items, required === "true");
      complain(finding);
      return finding;
    },
    focus: () => (items.length > 0 ? items.find(isUnfinished)?.row.focus() : input.focus()),
    value() {
      const receipts = items.flatMap(({ upload }) =>
        upload?.state.phase === "done" ? [{ ...upload.state.receipt, uploadId }] : [],
      );
      if (receipts.length === 0) return undefined;
      return multiple === "true" ? receipts : receipts[0];
    },
    async settle() {
      await removals;
      await Promise.all([...removed].map(takeBack));
      return removed.size === 0;
    },
    stop() {
      for (const { upload } of items) if (upload?.state.phase !== "done") upload?.pause();
    },
  };
}

function isUnfinished({ upload }: Item): boolean {
  return upload?.state.phase !== "done";
}

function findingIn(items: readonly Item[], isRequired: boolean): string | undefined {
  const phases = items.map(({ upload }) => upload?.state.phase ?? "refused");
  if (phases.includes("paused")) return "A file is paused. Resume or remove it first.";
  if (phases.includes("failed") || phases.includes("refused"))
    return "A file could not be sent. Remove it, or try again.";
  if (phases.some((phase) => phase !== "done"))
    return "Files are still being sent. Wait until they are there, or remove them.";
  if (isRequired && items.length === 0) return "Choose a file first.";
  return undefined;
}

/** Files may be dropped anywhere on the field. */
function acceptDrops(section: HTMLElement, take: (files: readonly File[]) => void): void {
  let inside = 0;
  const show = (): void => void section.toggleAttribute("data-over", inside > 0);
  section.addEventListener("dragenter", () => {
    inside += 1;
    show();
  });
  section.addEventListener("dragleave", () => {
    inside -= 1;
    show();
  });
  section.addEventListener("drop", ({ dataTransfer }) => {
    inside = 0;
    show();
    take([...(dataTransfer?.files ?? [])]);
  });
}
