// @module-tag slow
import { withCache } from "@sluice/storage";
import { checkBackend, type Fixture } from "@sluice/storage/conformance";
import { expect, test } from "vitest";
import { createReferenceService } from "./reference-service.ts";

/** The reference service behind a cache, after reopening too. */
function createCachedFixture(): Fixture {
  const { fixture } = createReferenceService();
  return {
    ...fixture,
    backend: withCache(fixture.backend),
    reopen: async () => withCache((await fixture.reopen?.()) ?? fixture.backend),
  };
}

test("a cache keeps every rule that what is behind it keeps", { timeout: 120_000 }, async () => {
  const findings = await checkBackend(createCachedFixture);
  expect(findings.filter(({ outcome }) => outcome === "broken")).toEqual([]);
  // kept objects lie in memory, so they have no file face
  const absent = findings.filter(({ outcome }) => outcome === "absent");
  expect(absent.map(({ rule }) => rule.id)).toEqual(["file-bytes", "file-close"]);
});
