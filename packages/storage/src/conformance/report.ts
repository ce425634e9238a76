import { AssertionError } from "node:assert/strict";
import type { Finding } from "./check-backend.ts";
import { show } from "./show.ts";

const marks = { kept: "✓", broken: "✗", absent: "–" };

/** The findings as text: a line each, the reason below what is not kept, and a count at the end. */
export function formatReport(findings: readonly Finding[]): string {
  const lines = findings.flatMap((finding) => {
    const { rule, outcome } = finding;
    const line = `${marks[outcome]} ${rule.id}: ${rule.sentence}`;
    if (finding.outcome === "broken") return [line, `    broken: ${describeError(finding.error)}`];
    if (finding.outcome === "absent") return [line, `    absent: ${finding.reason}`];
    return [line];
  });
  const count = (wanted: Finding["outcome"]): number =>
    findings.filter(({ outcome }) => outcome === wanted).length;
  const counts = `${count("kept")} kept · ${count("broken")} broken · ${count("absent")} absent`;
  return [...lines, "", counts].join("\n");
}

function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message.split("\n", 1).join("");
  if (!(error instanceof AssertionError) || !comparisons.has(error.operator)) return message;
  const { actual, expected } = error;
  // an assertion without its own sentence has both values, over many lines
  const sentence = error.generatedMessage ? "" : `${message}: `;
  const due = /^(not|doesNot)/.test(error.operator) ? "anything but " : "";
  return `${sentence}${show(actual)} where ${due}${show(expected)} is due`;
}

const comparisons: ReadonlySet<string> = new Set([
  "strictEqual",
  "notStrictEqual",
  "deepStrictEqual",
  "notDeepStrictEqual",
  "match",
  "doesNotMatch",
]);
