import { announce, byId, tell } from "../../transport-http/page/elements.ts";
import { createFieldFiles, type FieldFilesOptions, type Item } from "./field-files.ts";
import type { Receipt } from "./transfer.ts";
import type { Terms } from "./words.ts";

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
  /** Takes files as if they were picked. */
  take(files: readonly File[]): void;
  /** Asks the server what is there and shows that. Rejects with `Interrupted` when it cannot say. */
  sync(): Promise<void>;
  /** Resolves when every file that was picked is listed. */
  listed(): Promise<void>;
  /** A file of another page, begun or in progress, is incomplete. */
  isWaiting(): boolean;
  /** Tries again at once what waits to be tried again. */
  wake(): void;
  /** Waits until the server has nothing of a file that was removed, else it would not take the answer; false when that fails. */
  settle(): Promise<boolean>;
  /** Pauses everything in progress, and what is picked from now on. */
  stop(): void;
}

interface AnsweredFile extends Receipt {
  readonly uploadId: string;
}

/** Brings the section of a field to life. */
export function createFileField(
  section: HTMLElement,
  { sendLimit, onTrouble }: Pick<FieldFilesOptions, "sendLimit" | "onTrouble">,
): FileField {
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
  /** Resolves when it was seen what is there: a file that is picked before may be one of those. */
  let isSeen: () => void;
  const seen = new Promise<void>((resolve) => (isSeen = resolve));
  /** Choices are looked at one after the other. */
  let takes: Promise<void> = Promise.resolve();
  let isStopped = false;

  function complain(text: string | undefined): void {
    tell(error, text);
    section.toggleAttribute("data-wrong", text !== undefined);
    if (text === undefined) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
  }

  const list = createFieldFiles({
    element: section.querySelector("ul")!,
    terms,
    url,
    uploadId,
    sendLimit,
    onTrouble,
    onRemoved(next) {
      complain(undefined);
      announce("Removed.");
      if (next) next.row.focus();
      else input.focus();
    },
  });
  const { items } = list;

  function take(files: readonly File[]): void {
    complain(undefined);
    if (files.length === 0) return;
    takes = takes.then(() => takeNow(files));
  }

  async function takeNow(files: readonly File[]): Promise<void> {
    await seen;
    const known: string[] = [];
    const fresh: File[] = [];
    for (const file of files) {
      if (await list.has(file)) known.push(file.name);
      else if (!(await list.takeUp(file))) fresh.push(file);
    }
    const complaints: string[] = [];
    if (known.length > 0) complaints.push(alreadyThere(known));
    // a field for one file: another choice replaces the first
    if (terms.maxFiles > 1) list.clear("unsent");
    else if (fresh.length > 0) list.clear("all");
    const room = terms.maxFiles - items.length;
    for (const file of fresh.slice(0, room)) list.add(file);
    // picked before the end, and listed after it
    if (isStopped) pauseAll();
    if (fresh.length > room) {
      const most = terms.maxFiles === 1 ? "One file" : `At most ${terms.maxFiles} files`;
      complaints.push(
        `${most} can be sent here; ${fresh.length - room} more were left out. To send another one, remove one first.`,
      );
    }
    if (complaints.length === 0) return;
    complain(complaints.join(" "));
    announce(error.textContent);
  }

  function pauseAll(): void {
    for (const { upload } of items) if (upload?.state.phase !== "done") upload?.pause();
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
    take,
    async sync() {
      await list.sync();
      isSeen();
    },
    listed: () => takes,
    isWaiting: () => list.isWaiting(),
    wake() {
      for (const { upload } of items) if (upload?.state.phase === "retrying") upload.resume();
    },
    isBusy: () =>
      items.some(
        ({ upload }) => upload && !["done", "failed", "left"].includes(upload.state.phase),
      ),
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
    settle: () => list.settle(),
    stop() {
      isStopped = true;
      pauseAll();
    },
  };
}

function isUnfinished({ upload }: Item): boolean {
  return upload?.state.phase !== "done";
}

function alreadyThere(names: readonly string[]): string {
  const which = names.length === 1 ? `${names[0]} is` : `${names.length} of these files are`;
  return `${which} here already and not sent again. To send another version, remove the first one.`;
}

function findingIn(items: readonly Item[], isRequired: boolean): string | undefined {
  const phases = items.map(({ upload }) => upload?.state.phase ?? "refused");
  if (phases.includes("paused")) return "A file is paused. Resume or remove it first.";
  if (phases.includes("failed") || phases.includes("refused"))
    return "A file could not be sent. Remove it, or try again.";
  if (phases.includes("left"))
    return "A file is incomplete. Choose the same file again to resume, or remove it.";
  if (phases.some((phase) => phase !== "done"))
    return "Files are still being sent. Wait until they are sent, or remove them.";
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
