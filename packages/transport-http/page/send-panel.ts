import { byId, make } from "./elements.ts";

/** A page that is not there by then takes no files from here. */
const readyTimeoutMs = 15_000;

/** Sends files that are dropped on the page: an upload page of this server, which `form` leads to, takes them in a panel. */
export function acceptDrops(form: HTMLFormElement): void {
  let panel: SendPanel | undefined;
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    showTarget(true);
  });
  addEventListener("dragleave", ({ relatedTarget }) => {
    if (relatedTarget === null) showTarget(false);
  });
  addEventListener("drop", (event) => {
    showTarget(false);
    if (!hasFiles(event)) return;
    event.preventDefault();
    if (!panel?.isOpen) {
      panel?.remove();
      panel = new SendPanel(form);
    }
    panel.send([...event.dataTransfer!.files]);
  });
}

function showTarget(isOver: boolean): void {
  document.body.toggleAttribute("data-over", isOver);
}

function hasFiles({ dataTransfer }: DragEvent): boolean {
  return dataTransfer?.types.includes("Files") === true;
}

/** An upload page in a corner of the list, with the files on their way. It says `ready`, and later how its question ended. */
class SendPanel {
  readonly #frame = make("iframe", { name: "sending", title: "Files on their way" });
  readonly #note = make("p", { class: "notice", role: "status" }, "Loading …");
  readonly #element: HTMLElement;
  readonly #closed = new AbortController();
  /** Dropped before the upload page was there. */
  #waiting: File[] = [];
  #state: "loading" | "ready" | "ended" = "loading";
  #isTaken = false;

  constructor(form: HTMLFormElement) {
    const close = make(
      "button",
      { type: "button", class: "quiet small", "aria-label": "Close: sending files" },
      "✕",
    );
    close.addEventListener("click", () => this.#close());
    const title = make("h2", { id: "sending-title" }, "Sending files");
    this.#element = make(
      "section",
      { id: "sending", "aria-labelledby": "sending-title" },
      make("div", { class: "top" }, title, close),
      this.#note,
      this.#frame,
    );
    byId("status").before(this.#element);
    const { signal } = this.#closed;
    addEventListener("message", (event) => this.#hear(event), { signal });
    const late = setTimeout(() => this.#fail(), readyTimeoutMs);
    signal.addEventListener("abort", () => clearTimeout(late));
    form.target = this.#frame.name;
    form.requestSubmit();
    form.removeAttribute("target");
  }

  /** Whether it takes more files: its question is not answered. */
  get isOpen(): boolean {
    return this.#state !== "ended" && !this.#closed.signal.aborted;
  }

  send(files: readonly File[]): void {
    this.#waiting.push(...files);
    if (this.#state === "ready") this.#handOver();
  }

  remove(): void {
    this.#closed.abort();
    this.#element.remove();
  }

  #hear({ source, origin, data }: MessageEvent<unknown>): void {
    if (source !== this.#frame.contentWindow || origin !== location.origin) return;
    if (data === "ready") {
      this.#state = "ready";
      this.#note.hidden = true;
      this.#handOver();
    } else {
      this.#state = "ended";
      this.#isTaken = data === "accepted";
    }
  }

  #handOver(): void {
    this.#frame.contentWindow?.postMessage(this.#waiting, location.origin);
    this.#waiting = [];
  }

  #fail(): void {
    if (this.#state !== "loading") return;
    this.#state = "ended";
    this.#frame.remove();
    this.#note.textContent = "Files cannot be dropped here now. Press “Send files” to choose them.";
  }

  #close(): void {
    const isLeft = this.#state === "ready" && !confirm("Close, and send no more of these files?");
    if (isLeft) return;
    this.remove();
    // what was taken may be in this folder
    if (this.#isTaken) location.reload();
  }
}
