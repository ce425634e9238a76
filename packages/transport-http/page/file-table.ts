import { countText } from "../src/page/count-text.ts";
import { announce, byId, make } from "./elements.ts";
import { loadPage } from "./load.ts";
import { Thumbnails } from "./thumbnails.ts";
import { localTime } from "./times.ts";

type SortKey = "name" | "size" | "time";

/** A row of the table, with what it is sorted and searched by. */
interface Row {
  readonly element: HTMLTableRowElement;
  readonly name: string;
  readonly folded: string;
  readonly isFolder: boolean;
  readonly size: number;
  readonly time: string;
}

/** Rows of one part of the table: those that are out of sight are not laid out. */
const rowsOfPart = 50;
/** Rows that are put into the page at a time, so that no frame waits long. */
const rowsOfFrame = 200;
/** Rows after which no more are loaded unasked. */
const maxRows = 20_000;
/** How many pages are loaded before the user asks for more. */
const maxPages = 25;

const byName = new Intl.Collator("en", { numeric: true }).compare;

/** The rows of a folder: shows those that match in the chosen order, and loads the pages that follow. */
export class FileTable {
  readonly #table: HTMLTableElement;
  readonly #count = byId("count");
  readonly #empty = byId("empty");
  readonly #thumbnails = new Thumbnails();
  #rows: Row[] = [];
  #shown: Row[] = [];
  #key: SortKey = "name";
  #isDown = false;
  #query = "";
  #frame = 0;
  #isLoading = false;

  constructor(table: HTMLTableElement) {
    this.#table = table;
    this.#rows = rowsIn(table);
    this.#shown = this.#rows;
    this.#thumbnails.watch(this.#rows.map(({ element }) => element));
    byId("zone").remove();
    for (const head of table.querySelectorAll<HTMLElement>("th[data-key]"))
      this.#makeSortable(head);
  }

  /** Shows the rows whose name has the text in it, in any case. */
  search(text: string): void {
    this.#query = fold(text.trim());
    this.#show();
    if (this.#query !== "") announce(this.#count.textContent);
  }

  /** The file that is shown before or behind another one. */
  fileBeside(row: HTMLTableRowElement, step: 1 | -1): HTMLTableRowElement | undefined {
    const files = this.#shown.filter(({ isFolder }) => !isFolder);
    return files[files.findIndex(({ element }) => element === row) + step]?.element;
  }

  /** The link of the row before or behind another one; of the first or the last. */
  linkBeside(row: Element | null, step: 1 | -1 | "first" | "last"): HTMLElement | null {
    const at = this.#shown.findIndex(({ element }) => element === row);
    const to = step === "first" ? 0 : step === "last" ? this.#shown.length - 1 : at + step;
    return this.#shown[to]?.element.querySelector("a") ?? null;
  }

  /** Loads the pages that follow, as far as they are not asked for. */
  async loadAll(): Promise<void> {
    const more = document.querySelector<HTMLAnchorElement>("#more");
    if (!more || this.#isLoading) return;
    this.#isLoading = true;
    const end = this.#rows.length + maxRows;
    more.hidden = true;
    try {
      let next: string | undefined = more.href;
      // a page may have few rows: folders with many objects below are looked through for one
      for (
        let pages = 0;
        next !== undefined && this.#rows.length < end && pages < maxPages;
        pages += 1
      ) {
        this.#tellCount();
        const page: Document = await loadPage(next);
        next = page.querySelector<HTMLAnchorElement>("#more")?.getAttribute("href") ?? undefined;
        if (next !== undefined) more.href = next;
        noteUnlisted(page);
        this.#add(page);
      }
      if (next === undefined) more.remove();
    } catch {
      announce("The rest could not be loaded.");
    }
    more.hidden = false;
    this.#isLoading = false;
    this.#show();
  }

  /** Puts rows behind those that are there; in another order, or with a search, all are shown anew. */
  #add(page: Document): void {
    const known = new Set(this.#rows.filter(({ isFolder }) => isFolder).map(({ name }) => name));
    const added = rowsIn(page).filter(({ isFolder, name }) => !isFolder || !known.has(name));
    this.#rows.push(...added);
    if (this.#key !== "name" || this.#isDown || this.#query !== "") return this.#show();
    this.#shown = this.#rows;
    this.#append(added);
    this.#tellCount();
  }

  #show(): void {
    const sign = this.#isDown ? -1 : 1;
    const compare = orders[this.#key];
    const before = this.#shown;
    this.#shown = this.#rows
      .filter(({ folded }) => folded.includes(this.#query))
      .toSorted((a, b) => Number(b.isFolder) - Number(a.isFolder) || sign * compare(a, b));
    this.#tellCount();
    const isSame = this.#shown.every((row, at) => row === before[at]);
    if (isSame && this.#shown.length === before.length) return;
    cancelAnimationFrame(this.#frame);
    for (const part of this.#table.querySelectorAll("tbody")) part.remove();
    this.#append(this.#shown.slice(0, rowsOfFrame));
    this.#fill(rowsOfFrame);
  }

  #fill(from: number): void {
    if (from >= this.#shown.length) return;
    this.#frame = requestAnimationFrame(() => {
      this.#append(this.#shown.slice(from, from + rowsOfFrame));
      this.#fill(from + rowsOfFrame);
    });
  }

  #append(rows: readonly Row[]): void {
    for (let at = 0; at < rows.length; at += rowsOfPart) {
      const elements = rows.slice(at, at + rowsOfPart).map(({ element }) => element);
      this.#table.append(make("tbody", { role: "rowgroup" }, ...elements));
      this.#thumbnails.watch(elements);
    }
  }

  #tellCount(): void {
    const files = this.#rows.filter(({ isFolder }) => !isFolder);
    const folders = this.#rows.length - files.length;
    const all = countText(
      folders,
      files.map(({ size }) => Math.max(size, 0)),
    );
    const matching = `${grouped(this.#shown.length)} of ${grouped(this.#rows.length)} match`;
    const text = this.#query === "" ? all : matching;
    this.#count.textContent = this.#isLoading ? `${text} so far, loading …` : text;
    this.#empty.hidden = this.#shown.length > 0;
    if (this.#query !== "") this.#empty.textContent = "No name matches.";
  }

  #makeSortable(head: HTMLElement): void {
    const key = head.dataset["key"] as SortKey;
    const button = make("button", { type: "button" }, head.textContent.trim());
    button.addEventListener("click", () => {
      this.#isDown = this.#key === key ? !this.#isDown : key !== "name";
      this.#key = key;
      for (const other of this.#table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", this.#isDown ? "descending" : "ascending");
      this.#show();
    });
    head.replaceChildren(button);
  }
}

const orders: Readonly<Record<SortKey, (a: Row, b: Row) => number>> = {
  name: (a, b) => byName(a.name, b.name),
  size: (a, b) => a.size - b.size || byName(a.name, b.name),
  time: (a, b) => Number(a.time > b.time) - Number(a.time < b.time) || byName(a.name, b.name),
};

/** The rows of a page; times become those of this place. */
function rowsIn(page: ParentNode): Row[] {
  return [...page.querySelectorAll<HTMLTableRowElement>("#files tbody tr")].map((row) => {
    const { name = "", size = "-1", folder } = row.dataset;
    const time = row.querySelector("time");
    const at = time?.dateTime ?? "";
    if (time) time.textContent = localTime(at);
    const isFolder = folder !== undefined;
    return { element: row, name, folded: fold(name), isFolder, size: Number(size), time: at };
  });
}

/** What of a later part of the storage is in no list. */
function noteUnlisted(page: Document): void {
  const later = page.querySelector("#unlisted");
  if (later) byId("count").after(later);
}

function fold(text: string): string {
  return text.normalize("NFKC").toLowerCase();
}

function grouped(count: number): string {
  return count.toLocaleString("en");
}
