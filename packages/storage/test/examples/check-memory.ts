// #region script
import { checkBackend, formatReport } from "@sluice/storage/conformance";
import { createMemoryFixture } from "./memory-fixture.ts";

const findings = await checkBackend(createMemoryFixture);
console.log(formatReport(findings));
process.exitCode = findings.some(({ outcome }) => outcome === "broken") ? 1 : 0;
// #endregion
