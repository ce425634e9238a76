import { endings } from "../src/page/page-endings.ts";
import { AppHost, membersOf, type ToolResult } from "../../transport-http/page/app-host.ts";
import { announce, make } from "../../transport-http/page/elements.ts";
import { tellEnding, watchEnding } from "./ending.ts";
import { getDocument } from "./http.ts";
import type { Place } from "./place.ts";
import { startQuestion } from "./question-form.ts";

// The upload page inside a conversation. It is the same form: this loads it, and tells the model how it ended.

/** As `_meta` of the result that asks names it, see `UploadInApp`. */
interface ShownUpload {
  readonly url: string;
  readonly message: string;
  readonly pageUrl: string;
}

const extension = "dev.sluice/uploads";
const refusal = "I do not want to send files.";
const firstDelayMs = 1_000;
const longestDelayMs = 15_000;

const main = document.querySelector("main")!;
const endpoint = main.dataset["endpoint"]!;
let shown: ShownUpload | undefined;
let loading = new AbortController();

const host = new AppHost({
  onResult(result) {
    const upload = uploadIn(result);
    // of a call that has its files
    if (!upload && !shown) main.replaceChildren();
    if (!upload || upload.url === shown?.url) return;
    loading.abort();
    shown = upload;
    void show(upload);
  },
  onCancelled() {
    if (!shown) notice("This request was closed", "The assistant no longer waits for files.");
  },
});

/** The upload that a result asks for; `undefined` if it asks for none, or not at the endpoint that this App is of. */
function uploadIn({ structuredContent, _meta }: ToolResult): ShownUpload | undefined {
  const { url, message } = membersOf(membersOf(membersOf(_meta)[extension])["app"]);
  const { page_url: pageUrl } = membersOf(structuredContent);
  const isOurs = [url, pageUrl].every(
    (each) => typeof each === "string" && each.startsWith(`${endpoint}/`),
  );
  if (!isOurs || typeof message !== "string") return undefined;
  return { url: String(url), message, pageUrl: String(pageUrl) };
}

/** Loads the form and runs it. While the server is out of reach, the user may open the page in a tab. */
async function show(upload: ShownUpload): Promise<void> {
  loading = new AbortController();
  const { signal } = loading;
  notice("Send files", "Loading …");
  for (let delayMs = firstDelayMs; ; delayMs = Math.min(delayMs * 2, longestDelayMs)) {
    try {
      const { status, page } = await getDocument(upload.url, signal);
      const isBusy = status >= 500 || status === 429;
      if (!isBusy) return run(upload, page);
      offerTab(upload);
    } catch {
      if (signal.aborted) return;
      offerTab(upload);
    }
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    if (signal.aborted) return;
  }
}

function run(upload: ShownUpload, page: Document): void {
  const content = page.querySelector("main > :first-child");
  if (!content) return offerTab(upload);
  main.replaceChildren(document.importNode(content, true));
  const form = main.querySelector<HTMLFormElement>("#question");
  if (form) return startQuestion(form, reportingFrame(upload));
  const place = frameOf(upload, () => userTells);
  const phase = main.querySelector<HTMLElement>("#ending")?.dataset["phase"];
  if (!isPhase(phase)) return;
  tellEnding(place, { phase }, true);
  if (phase === "answered") watchEnding(place);
}

function isPhase(phase: string | undefined): phase is keyof typeof endings {
  return phase !== undefined && Object.hasOwn(endings, phase);
}

function offerTab({ pageUrl }: ShownUpload): void {
  notice("Send files", "The server cannot be reached from here. This page tries again by itself.");
  if (!host.can("openLinks")) return;
  const button = make("button", { type: "button", class: "quiet" }, "Open the upload page");
  button.addEventListener("click", () => void host.openLink(pageUrl));
  main.firstElementChild?.append(button);
}

function notice(heading: string, sentence: string): void {
  const content = [make("h1", {}, heading), make("p", {}, sentence)];
  main.replaceChildren(make("div", { class: "notice-page" }, ...content));
}

/** What is said here in place of a tab: nobody goes back from here. */
const sentences: { readonly [Phase in keyof typeof endings]: string } = {
  answered: "Your files have arrived.",
  accepted: "The assistant has your files.",
  declined: "What you sent was removed.",
  cancelled: "It was closed by its sender, and none of your files are used.",
  failed: "The files could not be used, and were deleted. Ask the assistant to try again.",
};

/** The frame, as the place of a question. `next` is said while the answer waits for the tool. */
function frameOf({ url }: ShownUpload, next: () => string): Place {
  return {
    url,
    timeOver: "The time to send files is over. Ask the assistant to try again.",
    goodUntil: (at) => `Files are taken until ${at}.`,
    endingOf: (phase) => ({
      heading: endings[phase].heading,
      sentence: phase === "answered" ? `${sentences[phase]} ${next()}` : sentences[phase],
    }),
  };
}

const userTells = "Tell the assistant to go on with them.";

/** The frame, which tells the model once that the user has answered. */
function reportingFrame(upload: ShownUpload): Place {
  let next = "";
  let isTelling = false;
  return {
    ...frameOf(upload, () => next),
    onEnding(phase, isOwn) {
      if (!isOwn || isTelling || (phase !== "answered" && phase !== "declined")) return;
      isTelling = true;
      const text = phase === "answered" ? upload.message : refusal;
      void tell(text, phase === "answered");
    },
  };

  async function tell(text: string, isSent: boolean): Promise<void> {
    const isTold = await host.tellModel(text);
    if (!isSent) return;
    next = isTold ? "The assistant goes on with them." : userTells;
    announce(next);
  }
}

notice("Send files", "Waiting for the server …");
void host.connect("sluice upload");
