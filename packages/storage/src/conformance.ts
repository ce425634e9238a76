export {
  checkBackend,
  type CheckOptions,
  checkRule,
  type CreateFixture,
  type Finding,
} from "./conformance/check-backend.ts";
export { defineBackendTests, type DefineTest } from "./conformance/define-tests.ts";
export type {
  ErrorPage,
  Faults,
  Fixture,
  Outside,
  StoredType,
  Traits,
} from "./conformance/fixture.ts";
export { createLargeContent } from "./conformance/large-content.ts";
export { formatReport } from "./conformance/report.ts";
export type { Need, Rule } from "./conformance/rule.ts";
export { conformanceRules } from "./conformance/rules/rules.ts";
