import type { Finding } from "./check-backend.ts";

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
  return error instanceof Error ? error.message.split("\n", 1).join("") : String(error);
}
