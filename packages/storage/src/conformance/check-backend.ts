import assert from "node:assert/strict";
import { AssertionError } from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { within } from "@sluice/core/internal";
import { expectHandles } from "./expect.ts";
import type { Fixture } from "./fixture.ts";
import { recordCalls, show } from "./record-calls.ts";
import { Absent, missing, type Rule } from "./rule.ts";
import { conformanceRules } from "./rules/rules.ts";

/** Makes a fresh fixture; called once for every rule, so that no rule sees what another left. */
export type CreateFixture = () => Fixture | Promise<Fixture>;

/** The outcome of one rule. */
export type Finding = { readonly rule: Rule } & (
  | { readonly outcome: "kept" }
  /** `error` says how. */
  | { readonly outcome: "broken"; readonly error: unknown }
  /** It could not be checked here; `reason` says what is not there. */
  | { readonly outcome: "absent"; readonly reason: string }
);

/** Settings of {@link checkBackend}. */
export interface CheckOptions {
  /** Only rules with these ids, or whose id begins with one of these and a dash: `list` is all of listing. */
  readonly only?: readonly string[];
  /** Longest time one rule may take. Default: 10 s. */
  readonly deadlineMs?: number;
  /** Ends the check between two rules with `signal.reason`. */
  readonly signal?: AbortSignal;
}

/** Holds a backend against the rules of the contract and gives one finding each, in their order. */
export async function checkBackend(
  createFixture: CreateFixture,
  options: CheckOptions = {},
): Promise<Finding[]> {
  const { only, signal } = options;
  const unknown =
    only?.filter((name) => !conformanceRules.some(({ id }) => isNamed(id, name))) ?? [];
  if (unknown.length > 0)
    throw new TypeError(`checkBackend: no rule is named ${unknown.join(", ")}`);
  const findings: Finding[] = [];
  for (const rule of conformanceRules) {
    if (only && !only.some((name) => isNamed(rule.id, name))) continue;
    signal?.throwIfAborted();
    findings.push(await checkRule(rule, createFixture, options));
  }
  return findings;
}

/**
 * Checks one rule with its own fixture. A rule is also broken by a rejection that is not handled,
 * by handles that are still open afterwards, and by its deadline.
 */
export async function checkRule(
  rule: Rule,
  createFixture: CreateFixture,
  { deadlineMs = 10_000 }: Pick<CheckOptions, "deadlineMs"> = {},
): Promise<Finding> {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", onUnhandled);
  try {
    const fixture = await createFixture();
    try {
      const reasons = rule.needs.map((need) => missing(need, fixture));
      const reason = reasons.find((text) => text !== undefined);
      if (reason !== undefined) return { rule, outcome: "absent", reason };
      const recorded = { ...fixture, backend: recordCalls(fixture.backend) };
      await withoutLeaks(fixture, () => beforeDeadline(rule.check(recorded), deadlineMs));
      await wait(0);
      assert.ok(unhandled.length === 0, `an unhandled rejection: ${String(unhandled[0])}`);
      return { rule, outcome: "kept" };
    } finally {
      await fixture.dispose?.();
    }
  } catch (error) {
    if (error instanceof Absent) return { rule, outcome: "absent", reason: error.message };
    return { rule, outcome: "broken", error };
  } finally {
    process.off("unhandledRejection", onUnhandled);
  }
}

function isNamed(id: string, name: string): boolean {
  return id === name || id.startsWith(`${name}-`);
}

function beforeDeadline(work: Promise<void>, deadlineMs: number): Promise<void> {
  const message = `it did not end within ${deadlineMs} ms`;
  return within(work, {
    timeoutMs: deadlineMs,
    expired: () => new assert.AssertionError({ message }),
  });
}

async function withoutLeaks(fixture: Fixture, check: () => Promise<void>): Promise<void> {
  const before = await fixture.countHandles?.();
  await check();
  if (before === undefined || fixture.countHandles === undefined) return;
  await expectHandles(fixture.countHandles, before);
}

/** The part of a test's context that vitest, node:test and their like have in common. */
interface TestContext {
  skip?(reason?: string): unknown;
}

/** `test(name, run)` of vitest, node:test, mocha … */
export type DefineTest = (name: string, run: (context: TestContext) => Promise<void>) => unknown;

/**
 * Defines one test for every rule with the `test` function of any runner. An absent rule is skipped
 * with its reason if the runner can do that, and printed in any case.
 */
export function defineBackendTests(
  test: DefineTest,
  createFixture: CreateFixture,
  options: Pick<CheckOptions, "deadlineMs"> = {},
): void {
  for (const rule of conformanceRules)
    test(`${rule.id}: ${rule.sentence}`, async (context) => {
      const finding = await checkRule(rule, createFixture, options);
      if (finding.outcome === "broken") throw finding.error;
      if (finding.outcome === "kept") return;
      console.info(`absent: ${rule.id}: ${finding.reason}`);
      context?.skip?.(finding.reason);
    });
}

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
