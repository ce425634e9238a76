import { byId } from "./elements.ts";
import { FileTable } from "./file-table.ts";
import { Preview } from "./preview.ts";
import { acceptDrops } from "./send-panel.ts";

function start(table: HTMLTableElement): void {
  const files = new FileTable(table);
  const preview = new Preview((row, step) => files.fileBeside(row, step));
  const search = byId("search") as HTMLInputElement;
  byId("find").hidden = false;

  search.addEventListener("input", () => files.search(search.value));
  document.querySelector("#more")?.addEventListener("click", (event) => {
    event.preventDefault();
    void files.loadAll();
  });

  table.addEventListener("click", (event) => {
    const row = rowOf(event.target);
    const link = row && (event.target as Element).closest("a");
    const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    // a new tab, a download and a folder are the browser's
    if (!row || !link || !isPlain || link.matches(".get") || row.dataset["folder"] !== undefined)
      return;
    event.preventDefault();
    preview.show(row);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    const { key, target } = event;
    if (key === "/" && target !== search) {
      event.preventDefault();
      return search.focus();
    }
    const step = steps[key];
    const isInTable = rowOf(target) !== null;
    if (step === undefined || !(isInTable || (target === search && key === "ArrowDown"))) return;
    const next = files.linkBeside(rowOf(target), target === search ? "first" : step);
    if (!next && key === "ArrowUp") search.focus();
    if (!next) return;
    event.preventDefault();
    next.focus();
  });

  // the first page is painted before the pages that follow take the processor
  requestAnimationFrame(() => setTimeout(() => void files.loadAll()));
}

const steps: Readonly<Record<string, 1 | -1 | "first" | "last">> = {
  ArrowDown: 1,
  ArrowUp: -1,
  Home: "first",
  End: "last",
};

function rowOf(target: EventTarget | null): HTMLTableRowElement | null {
  return target instanceof Element ? target.closest("#files tbody tr") : null;
}

const table = document.querySelector<HTMLTableElement>("#files");
if (table) start(table);
const send = document.querySelector<HTMLFormElement>("#send");
if (send) acceptDrops(send);
