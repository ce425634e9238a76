import { announce, byId } from "../../transport-http/page/elements.ts";
import { showEnding } from "./ending.ts";
import { createFileField } from "./file-field.ts";
import { answerPage, askPage, type PageStatus } from "./page-status.ts";
import type { Place } from "./place.ts";
import { createSendLimit } from "./upload.ts";
import { createValueField } from "./value-field.ts";

/** How often it is asked what another page has under way. */
const lookEveryMs = 4_000;
const lookAgainMs = 3_000;

/** Runs the form of a question until it has its answer. Throws nothing: what goes wrong is said in the form. */
export function startQuestion(form: HTMLFormElement, place: Place): void {
  const expiresAt = Number(form.dataset["expiresAt"]);
  const done = byId("done");
  const decline = byId("decline");
  const banner = byId("banner");
  const sendLimit = createSendLimit(2);
  const sections = [...form.querySelectorAll<HTMLElement>("section[data-kind]")];
  const files = sections
    .filter(({ dataset }) => dataset["kind"] === "files")
    .map((section) => createFileField(section, { sendLimit, onTrouble: () => void look() }));
  const values = sections
    .filter(({ dataset }) => dataset["kind"] === "value")
    .map(createValueField);
  const inOrder = sections.map(({ dataset }) =>
    [...files, ...values].find(({ name }) => name === dataset["name"])!,
  );

  let isOver = false;
  let isExpired = false;
  let isSending = false;
  let looking: Promise<boolean> | undefined;
  let nextLook: ReturnType<typeof setTimeout> | undefined;
  /** Ids of the answers that were tried, by what they say: a lost reply is asked for with the same one. */
  const answerIds = new Map<string, string>();

  function warn(text: string | undefined): void {
    banner.hidden = text === undefined;
    banner.textContent = text ?? "";
  }

  /** Asks the server what became of the page and what its slots have, and shows it; false when it cannot say. */
  function look(): Promise<boolean> {
    looking ??= lookNow().finally(() => (looking = undefined));
    return looking;
  }

  async function lookNow(): Promise<boolean> {
    clearTimeout(nextLook);
    if (isOver) return true;
    const wasOutOfReach = banner.textContent === outOfReach;
    try {
      const status = await askPage(place.url);
      if (status.phase === "expired") expire();
      else if (status.phase !== "open") end(status);
      // one after the other: a server answers a bounded number of such requests at a time
      else for (const field of files) await field.sync();
      if (wasOutOfReach) warn(undefined);
      const isWaiting = !isOver && files.some((field) => field.isWaiting());
      if (isWaiting) nextLook = setTimeout(() => void look(), lookEveryMs);
      return true;
    } catch {
      if (banner.hidden) warn(outOfReach);
      nextLook = setTimeout(() => void look(), lookAgainMs);
      return false;
    }
  }

  /** The question has its answer, of this page or of another one. */
  function end(status: PageStatus): void {
    if (isOver) return;
    isOver = true;
    for (const field of files) field.stop();
    const isOwn = [...answerIds.values()].includes(status.answerId ?? "");
    showEnding(form, place, status, isOwn);
  }

  function expire(): void {
    if (isOver) return;
    isExpired = true;
    for (const field of files) field.stop();
    warn(place.timeOver);
  }

  async function answer(body: object): Promise<void> {
    if (isSending || isOver) return;
    isSending = true;
    done.setAttribute("aria-disabled", "true");
    warn(undefined);
    const failure = await deliver(body);
    isSending = false;
    done.removeAttribute("aria-disabled");
    if (!isOver) warn(failure);
  }

  /** Gives the answer to the server; says what went wrong and what to do. */
  async function deliver(body: object): Promise<string | undefined> {
    const settled = await Promise.all(files.map((field) => field.settle()));
    if (!settled.every(Boolean)) return notTakenBack;
    const said = JSON.stringify(body);
    const answerId = answerIds.get(said) ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    answerIds.set(said, answerId);
    const refusal = await answerPage(place.url, { answerId, ...body });
    // a look that began before the answer does not know of it
    await looking;
    const isKnown = await look();
    // what became of the page counts more than what was said of one try
    if (isOver) return undefined;
    if (isExpired) return place.timeOver;
    if (!isKnown) return refusal ?? outOfReach;
    return refusal ?? "The server did not take the answer. Press the button again.";
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void accept();
  });

  async function accept(): Promise<void> {
    warn(undefined);
    await Promise.all(files.map((field) => field.listed()));
    const wrong = inOrder.filter((field) => field.check() !== undefined);
    if (wrong.length > 0) {
      warn(
        wrong.length === 1
          ? "One field needs another look."
          : `${wrong.length} fields need another look.`,
      );
      return wrong[0]?.focus();
    }
    const content = Object.fromEntries(
      inOrder.flatMap((field) => {
        const value = field.value();
        return value === undefined ? [] : [[field.name, value]];
      }),
    );
    await answer({ action: "accept", content });
  }

  decline.addEventListener("click", () => void answer({ action: "decline" }));

  // a file that misses its field must not take the page away
  for (const type of ["dragover", "drop"])
    addEventListener(type, (event) => event.preventDefault());
  addEventListener("beforeunload", (event) => {
    if (!isOver && files.some((field) => field.isBusy())) event.preventDefault();
  });

  // what happened while this page was asleep, hidden or out of reach
  const wake = (): void => {
    if (document.visibilityState !== "visible") return;
    for (const field of files) field.wake();
    void look();
  };
  for (const type of ["online", "focus", "pageshow"]) addEventListener(type, wake);
  for (const type of ["visibilitychange", "resume"]) document.addEventListener(type, wake);

  watchExpiry(expiresAt, place, expire);
  place.join?.((picked) => files[0]?.take(picked));
  void (async () => {
    await look();
    const count = form.querySelectorAll("li.file").length;
    if (count > 0)
      announce(count === 1 ? "One file is here already." : `${count} files are here already.`);
  })();
}

/** Says when the time ends, and when it has. */
function watchExpiry(expiresAt: number, place: Place, expired: () => void): void {
  const at = new Date(expiresAt).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  byId("expiry").textContent = place.goodUntil(at);
  setTimeout(expired, Math.max(0, expiresAt - Date.now()));
}

const outOfReach =
  "The server cannot be reached. Your files are not lost: check your connection; this page tries again by itself.";

const notTakenBack =
  "A file that you removed is still there, because the server cannot be reached. Check your connection and press the button again.";
