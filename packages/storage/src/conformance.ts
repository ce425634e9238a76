export {
  checkBackend,
  type CheckOptions,
  checkRule,
  type CreateFixture,
  defineBackendTests,
  type DefineTest,
  type Finding,
  formatReport,
} from "./conformance/check-backend.ts";
export {
  createLargeContent,
  type ErrorPage,
  type Faults,
  type Fixture,
  type Outside,
  type StoredType,
  type Traits,
} from "./conformance/fixture.ts";
export type { Need, Rule } from "./conformance/rule.ts";
export { conformanceRules } from "./conformance/rules/rules.ts";
