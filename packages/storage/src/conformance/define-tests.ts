import { checkRule, type CheckOptions, type CreateFixture } from "./check-backend.ts";
import { conformanceRules } from "./rules/rules.ts";

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
