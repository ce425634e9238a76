export {
  checkBackend,
  type CheckOptions,
  checkRule,
  type CreateFixture,
  type Finding,
} from "./lib/conformance/check-backend.ts";
export { defineBackendTests, type DefineTest } from "./lib/conformance/define-tests.ts";
export type { Faults, Fixture, Outside, StoredType, Traits } from "./lib/conformance/fixture.ts";
export { createLargeContent } from "./lib/conformance/large-content.ts";
export { formatReport } from "./lib/conformance/report.ts";
export type { Need, Rule } from "./lib/conformance/rule.ts";
export { rules } from "./lib/conformance/rules.ts";
