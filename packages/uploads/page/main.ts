import { byId, make } from "./elements.ts";
import { createFileField } from "./file-field.ts";
import { type Answer, send } from "./http.ts";
import { createTurns } from "./upload.ts";
import { createValueField } from "./value-field.ts";

const question = document.querySelector<HTMLFormElement>("#question");
if (question) start(question);

function start(form: HTMLFormElement): void {
  const expiresAt = Number(form.dataset["expiresAt"]);
  const done = byId("done");
  const decline = byId("decline");
  const banner = byId("banner");
  const turns = createTurns(2);
  const sections = [...form.querySelectorAll<HTMLElement>("section[data-kind]")];
  const files = sections
    .filter(({ dataset }) => dataset["kind"] === "files")
    .map((section) => createFileField(section, turns));
  const values = sections
    .filter(({ dataset }) => dataset["kind"] === "value")
    .map(createValueField);
  const inOrder = sections.map(({ dataset }) =>
    [...files, ...values].find(({ name }) => name === dataset["name"])!,
  );

  let isOver = false;
  let isSending = false;

  function warn(text: string | undefined): void {
    banner.hidden = text === undefined;
    banner.textContent = text ?? "";
  }

  async function answer(body: object, ending: Ending): Promise<void> {
    if (isSending) return;
    isSending = true;
    done.setAttribute("aria-disabled", "true");
    warn(undefined);
    const settled = await Promise.all(files.map((field) => field.settle()));
    const failure = settled.every(Boolean) ? await deliver(body) : notTakenBack;
    isSending = false;
    done.removeAttribute("aria-disabled");
    if (failure !== undefined) return warn(failure);
    isOver = true;
    for (const field of files) field.stop();
    finish(form, ending);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    warn(undefined);
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
    void answer({ action: "accept", content }, endings.sent);
  });
  decline.addEventListener("click", () => void answer({ action: "decline" }, endings.declined));

  // a file that misses its field must not take the page away
  for (const type of ["dragover", "drop"])
    addEventListener(type, (event) => event.preventDefault());
  addEventListener("beforeunload", (event) => {
    if (!isOver && files.some((field) => field.isBusy())) event.preventDefault();
  });

  watchExpiry(expiresAt, () => {
    if (isOver) return;
    for (const field of files) field.stop();
    warn("This link has expired. Go back to where you got it and ask for a new one.");
  });
}

/** Says when the link ends, and when it has. */
function watchExpiry(expiresAt: number, expired: () => void): void {
  const at = new Date(expiresAt).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  byId("expiry").textContent = `This link is good until ${at}.`;
  setTimeout(expired, Math.max(0, expiresAt - Date.now()));
}

/** Gives the answer to the server; says what went wrong. */
async function deliver(body: object): Promise<string | undefined> {
  let answer: Answer;
  try {
    answer = await send({
      method: "POST",
      url: location.href,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
  } catch {
    return "The server cannot be reached. Your files are not lost: check your connection and press the button again.";
  }
  if (answer.status < 300) return undefined;
  if (answer.status === 409) return "This request was answered already, perhaps in another tab.";
  if (answer.status === 404 || answer.status === 410)
    return "This link has expired. Go back to where you got it and ask for a new one.";
  return "The server did not take the answer. Please try again.";
}

const notTakenBack =
  "A file that you removed is still there, because the server cannot be reached. Check your connection and press the button again.";

interface Ending {
  readonly heading: string;
  readonly sentence: string;
}

const endings = {
  sent: {
    heading: "All done",
    sentence: "Your files are there. You can close this page and go back.",
  },
  declined: {
    heading: "Nothing is used",
    sentence: "What had come is removed. You can close this page and go back.",
  },
} satisfies Record<string, Ending>;

function finish(form: HTMLFormElement, { heading, sentence }: Ending): void {
  const title = make("h1", { tabindex: "-1" }, heading);
  document.title = heading;
  form.replaceWith(make("div", { class: "notice-page" }, title, make("p", {}, sentence)));
  title.focus();
}
