// The same rules as a report to read:   npx tsx test/check.ts
import { checkBackend, formatReport } from "@sluice/storage/conformance";
import { createFixture } from "./fixture.ts";

const findings = await checkBackend(createFixture);
console.log(formatReport(findings));
process.exitCode = findings.some(({ outcome }) => outcome === "broken") ? 1 : 0;
