import { announce, byId, make } from "../../transport-http/page/elements.ts";
import { askPage, type PageStatus } from "./page-status.ts";
import type { Place } from "./place.ts";

const firstDelayMs = 300;
const longestDelayMs = 3_000;

/** Shows what became of the question in place of its form, and goes on until the tool has said how it ended. */
export function showEnding(
  form: HTMLElement,
  place: Place,
  status: PageStatus,
  isOwn: boolean,
): void {
  const title = make("h1", { tabindex: "-1" });
  const notice = make("div", { class: "notice-page", id: "ending" }, title, make("p"));
  form.replaceWith(notice);
  tellEnding(place, status, isOwn);
  title.focus();
  if (status.phase === "answered") watchEnding(place, isOwn);
}

/** Asks until the tool has said how it ended, and shows that. */
export function watchEnding(place: Place, isOwn = true): void {
  let delayMs = firstDelayMs;
  const ask = async (): Promise<void> => {
    try {
      const status = await askPage(place.url);
      if (status.phase !== "answered") return tellEnding(place, status, isOwn);
      say(place.endingOf("answered").sentence);
    } catch {
      say("The server cannot be reached. Check your connection; this page tries again by itself.");
    }
    setTimeout(() => void ask(), delayMs);
    delayMs = Math.min(delayMs * 1.5, longestDelayMs);
  };
  void ask();
}

/** Shows how the question ended, in the notice that is there. */
export function tellEnding(place: Place, { phase }: PageStatus, isOwn: boolean): void {
  if (phase === "open") return;
  const { heading, sentence } =
    phase === "expired"
      ? {
          heading: "Your files were not taken",
          sentence: `They were not taken in time. ${place.timeOver}`,
        }
      : place.endingOf(phase);
  const isElsewhere = !isOwn && (phase === "answered" || phase === "accepted");
  const title = byId("ending").querySelector("h1")!;
  title.textContent = heading;
  document.title = heading;
  say(isElsewhere ? `This was sent from another tab or window. ${sentence}` : sentence);
  announce(`${heading}. ${sentence}`);
  place.onEnding?.(phase, isOwn);
}

function say(sentence: string): void {
  byId("ending").querySelector("p")!.textContent = sentence;
}
