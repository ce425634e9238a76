import { sizeText } from "@sluice/core/internal";
import { announce, make, tell } from "../../transport-http/page/elements.ts";
import { Pace, paceText } from "./pace.ts";
import type { Source } from "./transfer.ts";
import type { Upload } from "./upload.ts";
import { failureText, stateText, type Terms } from "./words.ts";

/** A file in the list of its field. */
export interface FileRow {
  readonly element: HTMLLIElement;
  show(upload: Upload): void;
  focus(): void;
}

let rows = 0;

/** Makes the row of a file. `finding` is why it is not sent at all. */
export function createFileRow(
  file: Pick<Source, "name" | "size">,
  terms: Terms,
  act: {
    finding?: string | undefined;
    /** The server had it before this page. */
    isFound?: boolean;
    toggle: () => void;
    remove: () => void;
  },
): FileRow {
  const id = `file-${++rows}`;
  const name = make("bdi", {}, file.name);
  const meta = make("p", { class: "meta" }, sizeText(file.size));
  const progress = make("progress", { max: "100", value: "0", "aria-labelledby": `${id}-name` });
  const error = make("p", { class: "error", id: `${id}-error` });
  const toggle = make("button", { type: "button", class: "small" });
  const remove = make("button", { type: "button", class: "small" }, "Remove");
  remove.setAttribute("aria-label", `Remove ${file.name}`);
  remove.setAttribute("aria-describedby", `${id}-error`);
  toggle.addEventListener("click", act.toggle);
  remove.addEventListener("click", act.remove);
  const element = make(
    "li",
    { class: "file" },
    make("span", { class: "mark", "aria-hidden": "true" }),
    make(
      "div",
      { class: "about" },
      make("p", { class: "name", id: `${id}-name`, title: file.name }, name),
      meta,
      progress,
      error,
    ),
    make("div", { class: "row-actions" }, toggle, remove),
  );

  function label(text: string | undefined): void {
    toggle.hidden = text === undefined;
    toggle.textContent = text ?? "";
    if (text !== undefined) toggle.setAttribute("aria-label", `${text}: ${file.name}`);
  }

  let pace = new Pace();
  // the first word on what was found there is said for all of them together
  let phase = act.isFound ? "found" : "";
  if (act.finding !== undefined) {
    element.dataset["phase"] = "refused";
    progress.hidden = true;
    label(undefined);
    tell(error, act.finding);
    announce(`${file.name}: ${act.finding}`);
  }

  return {
    element,
    focus: () => remove.focus(),
    show({ state }) {
      element.dataset["phase"] = state.phase;
      const share = file.size === 0 ? Number(state.phase === "done") : state.sent / file.size;
      progress.value = Math.round(share * 1_000) / 10;
      progress.hidden = state.phase === "done" || state.phase === "failed";
      if (state.phase === "sending") pace.note(state.sent, performance.now());
      else pace = new Pace();
      const parts = [stateText(file, state), paceText(pace, file.size - state.sent)];
      meta.textContent = parts.filter((part) => part !== "").join(" · ");
      tell(error, state.phase === "failed" ? failureText(state.error, file, terms) : undefined);
      if (state.phase === phase) return;
      const before = phase;
      phase = state.phase;
      const isFocused = document.activeElement === toggle;
      label(labels[state.phase]);
      // a button that goes away must not take the focus along
      if (isFocused && toggle.hidden) remove.focus();
      const news = before === "found" ? undefined : newsOf(state.phase, before);
      if (news !== undefined) announce(`${file.name}: ${news}`);
      if (state.phase === "failed") announce(`${file.name}: ${error.textContent}`);
    },
  };
}

const labels: Readonly<Record<string, string | undefined>> = {
  waiting: "Pause",
  sending: "Pause",
  paused: "Resume",
  retrying: "Try now",
  failed: "Try again",
};

/** What a screen reader has to say. */
function newsOf(phase: string, before: string): string | undefined {
  switch (phase) {
    case "done":
      return "sent";
    case "paused":
      return "paused";
    case "left":
      return "continues in another tab or window";
    case "retrying":
      return "the connection was lost; retrying automatically";
    case "sending":
      return before === "waiting" ? "sending" : undefined;
    default:
      return undefined;
  }
}
