import { sizeText } from "@sluice/core/internal";
import { csvLimits, csvRows } from "./csv.ts";
import { announce, make } from "./elements.ts";
import { loadStart, requestLink, uriOf, type FileLink } from "./load.ts";
import { clockTime } from "./times.ts";

/** Maximum bytes of a text that are shown. */
const maxTextBytes = 256 * 1024;
/** A larger drawing is not shown: all of it would be in memory. */
const maxDrawingBytes = 2 * 1024 * 1024;

/** A larger document opens in a tab, which has no need to hold all of it. */
const maxDocumentBytes = 32 * 1024 * 1024;

/** What a file is shown as, by its media type; the first that fits. Pictures and media are what browsers show by themselves. */
const kinds: readonly (readonly [RegExp, Show])[] = [
  [/^image\/svg\+xml/, showDrawing],
  [/^image\//, showPicture],
  [/^(?:video|audio)\//, showMedia],
  [/^application\/pdf/, showDocument],
  [/^text\/(?:csv|tab-separated-values)/, showTable],
  [
    /^text\/|[/+](?:json|xml|yaml|toml)(?:$|;)|\/(?:javascript|x-sh|sql|x-yaml|x-ndjson)(?:$|;)/,
    showText,
  ],
];

type Show = (link: FileLink, signal: AbortSignal) => Promise<readonly Node[]>;

/** A file in a dialog: what can be shown of it, without running anything, and what can be done with it. */
export class Preview {
  readonly #dialog: HTMLDialogElement;
  readonly #title = make("h2", { id: "preview-name" });
  readonly #facts = make("p", { class: "soft" });
  readonly #body = make("div", {
    class: "body",
    tabindex: "0",
    role: "region",
    "aria-labelledby": "preview-name",
  });
  readonly #open = make(
    "a",
    { class: "button quiet", target: "_blank", rel: "noopener" },
    "Open in a tab",
  );
  readonly #get = make("a", { class: "button primary", download: "" }, "Download");
  readonly #link = make("div", { class: "link", role: "status" });
  readonly #previous = button("‹", "Previous file");
  readonly #next = button("›", "Next file");
  readonly #beside: (row: HTMLTableRowElement, step: 1 | -1) => HTMLTableRowElement | undefined;
  #row: HTMLTableRowElement | undefined;
  #loading = new AbortController();

  constructor(beside: (row: HTMLTableRowElement, step: 1 | -1) => HTMLTableRowElement | undefined) {
    this.#beside = beside;
    const close = button("✕", "Close");
    const copy = make("button", { type: "button", class: "quiet" }, "Copy link");
    this.#dialog = make(
      "dialog",
      { id: "preview", "aria-labelledby": "preview-name" },
      make("div", { class: "top" }, make("div", {}, this.#title, this.#facts), close),
      this.#body,
      this.#link,
      make(
        "div",
        { class: "actions" },
        this.#previous,
        this.#next,
        make("span", { class: "gap" }),
        copy,
        this.#open,
        this.#get,
      ),
    );
    document.body.append(this.#dialog);
    close.addEventListener("click", () => this.#dialog.close());
    copy.addEventListener("click", () => void this.#copyLink());
    this.#previous.addEventListener("click", () => this.#step(-1));
    this.#next.addEventListener("click", () => this.#step(1));
    this.#dialog.addEventListener("close", () => this.#clear());
    this.#dialog.addEventListener("click", ({ target }) => {
      // beside the content: the backdrop
      if (target === this.#dialog) this.#dialog.close();
    });
    this.#dialog.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Shows the file of a row. */
  show(row: HTMLTableRowElement): void {
    this.#clear();
    this.#row = row;
    const [name, get] = [
      row.querySelector(".name bdi")!,
      row.querySelector<HTMLAnchorElement>(".get")!,
    ];
    this.#title.replaceChildren(name.cloneNode(true));
    this.#facts.textContent = "";
    this.#get.href = get.href;
    this.#open.href = row.querySelector("a")!.href;
    this.#previous.disabled = !this.#beside(row, -1);
    this.#next.disabled = !this.#beside(row, 1);
    if (!this.#dialog.open) this.#dialog.showModal();
    void this.#load(uriOf(row), this.#loading.signal);
  }

  #clear(): void {
    this.#loading.abort();
    this.#loading = new AbortController();
    this.#link.replaceChildren();
    // media stop, and let go of their connection
    for (const media of this.#body.querySelectorAll("video, audio")) media.removeAttribute("src");
    this.#body.replaceChildren();
  }

  async #load(uri: string, signal: AbortSignal): Promise<void> {
    this.#body.replaceChildren(notice("Loading …"));
    try {
      const link = await requestLink(uri, signal);
      this.#tellFacts(link);
      const show = kinds.find(([type]) => type.test(link.mimeType))?.[1] ?? showNothing;
      const content = await show(link, signal);
      if (!signal.aborted) this.#body.replaceChildren(...content);
    } catch (error) {
      if (signal.aborted) return;
      const again = make("button", { type: "button", class: "quiet" }, "Try again");
      again.addEventListener("click", () => this.#row && this.show(this.#row));
      this.#body.replaceChildren(notice(messageOf(error)), again);
      announce(messageOf(error));
    }
  }

  #tellFacts({ size, mimeType }: FileLink): void {
    const time = this.#row?.querySelector("time")?.textContent;
    const [type] = mimeType.split(";");
    const facts = [size === undefined ? undefined : sizeText(size), type, time].filter(Boolean);
    const parts = facts.flatMap((fact) => [" · ", make("span", {}, fact!)]);
    this.#facts.replaceChildren(...parts.slice(1));
  }

  #step(step: 1 | -1): void {
    const next = this.#row && this.#beside(this.#row, step);
    if (next) this.show(next);
  }

  #onKey(event: KeyboardEvent): void {
    const { key, target } = event;
    // a player has these keys for itself
    if (target instanceof HTMLMediaElement || target instanceof HTMLInputElement) return;
    if (key === "ArrowLeft") this.#step(-1);
    else if (key === "ArrowRight") this.#step(1);
  }

  async #copyLink(): Promise<void> {
    const { signal } = this.#loading;
    try {
      const { url, expiresAt } = await requestLink(uriOf(this.#row!), signal);
      const end = `It works until ${clockTime(expiresAt)}, for everyone who has it.`;
      const isCopied = await navigator.clipboard.writeText(url).then(
        () => true,
        () => false,
      );
      if (signal.aborted) return;
      if (isCopied) return this.#link.replaceChildren(`Link copied. ${end}`);
      const field = make("input", { readonly: "", "aria-label": "Link", value: url });
      this.#link.replaceChildren(field, end);
      field.select();
    } catch (error) {
      if (!signal.aborted) this.#link.replaceChildren(messageOf(error));
    }
  }
}

async function showPicture({ url }: FileLink): Promise<readonly Node[]> {
  return [await loaded(make("img", { src: url, alt: "" }))];
}

/** As an image a drawing runs nothing and loads nothing; the server itself sends it only as octets. */
async function showDrawing(link: FileLink, signal: AbortSignal): Promise<readonly Node[]> {
  if ((link.size ?? Infinity) > maxDrawingBytes) return showNothing();
  const bytes = await loadStart(link, maxDrawingBytes, signal);
  const url = URL.createObjectURL(new Blob([bytes], { type: "image/svg+xml" }));
  try {
    return [await loaded(make("img", { src: url, alt: "" }))];
  } finally {
    URL.revokeObjectURL(url);
  }
}

async function loaded(picture: HTMLImageElement): Promise<HTMLImageElement> {
  await picture.decode().catch(() => {
    throw new Error("The browser cannot show this picture.");
  });
  return picture;
}

async function showMedia({ url, mimeType }: FileLink): Promise<readonly Node[]> {
  const tag = mimeType.startsWith("video/") ? "video" : "audio";
  return [make(tag, { src: url, controls: "", preload: "metadata" })];
}

/** The browser's viewer shows it from memory: links allow no frame. */
async function showDocument(link: FileLink, signal: AbortSignal): Promise<readonly Node[]> {
  const isShown = navigator.pdfViewerEnabled && (link.size ?? Infinity) <= maxDocumentBytes;
  if (!isShown) return [notice("The browser shows this document in a tab.")];
  const bytes = await loadStart(link, link.size!, signal);
  const url = URL.createObjectURL(new Blob([bytes], { type: "application/pdf" }));
  signal.addEventListener("abort", () => URL.revokeObjectURL(url), { once: true });
  return [make("iframe", { src: url, title: "Document" })];
}

async function showText(link: FileLink, signal: AbortSignal): Promise<readonly Node[]> {
  const text = await textOf(link, signal);
  return [make("pre", { dir: "auto" }, text), ...restNote(link)];
}

async function showTable(link: FileLink, signal: AbortSignal): Promise<readonly Node[]> {
  const rows = csvRows(await textOf(link, signal));
  const [head = [], ...others] = rows;
  const table = make(
    "table",
    { class: "csv" },
    make("thead", {}, make("tr", {}, ...cells(head, "th"))),
    make("tbody", {}, ...others.map((row) => make("tr", {}, ...cells(row, "td")))),
  );
  const isCut = rows.length === csvLimits.rows;
  return [table, ...(isCut ? [notice(`The first ${csvLimits.rows} rows.`)] : restNote(link))];
}

function cells(row: readonly string[], tag: "th" | "td"): HTMLElement[] {
  const attributes = tag === "th" ? { scope: "col" } : {};
  return row.map((text) => make(tag, attributes, make("bdi", {}, text)));
}

async function showNothing(): Promise<readonly Node[]> {
  return [notice("There is no preview of this kind of file.")];
}

async function textOf(link: FileLink, signal: AbortSignal): Promise<string> {
  const bytes = await loadStart(link, maxTextBytes, signal);
  return decoderOf(link.mimeType).decode(bytes, { stream: true });
}

function decoderOf(mimeType: string): TextDecoder {
  const charset = /;\s*charset="?([\w-]+)/i.exec(mimeType)?.[1] ?? "utf-8";
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}

function restNote({ size = Infinity }: FileLink): readonly Node[] {
  return size > maxTextBytes ? [notice(`The first ${sizeText(maxTextBytes)}.`)] : [];
}

function notice(text: string): HTMLElement {
  return make("p", { class: "notice" }, text);
}

function button(sign: string, label: string): HTMLButtonElement {
  return make("button", { type: "button", class: "quiet small", "aria-label": label }, sign);
}

function messageOf(error: unknown): string {
  const isTimeout = error instanceof DOMException && error.name === "TimeoutError";
  if (isTimeout || !(error instanceof Error)) return "The server does not respond.";
  return error instanceof TypeError ? "The server cannot be reached." : error.message;
}
