import { endings } from "../src/page/page-endings.ts";
import { watchEnding } from "./ending.ts";
import { joinPanel, tellPanel } from "./panel.ts";
import type { Place } from "./place.ts";
import { startQuestion } from "./question-form.ts";

const tab: Place = {
  url: location.href,
  timeOver: "This link has expired. Go back to where you got it and ask for a new one.",
  goodUntil: (at) => `This link is good until ${at}.`,
  endingOf: (phase) => endings[phase],
  onEnding: (phase) => tellPanel(phase),
  join: joinPanel,
};

const question = document.querySelector<HTMLFormElement>("#question");
if (question) startQuestion(question, tab);
else if (document.querySelector("#ending[data-phase=answered]")) watchEnding(tab);
