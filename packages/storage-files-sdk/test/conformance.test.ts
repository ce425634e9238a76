import { checkBackend, type CreateFixture, defineBackendTests } from "@sluice/storage/conformance";
import { describe, expect, test } from "vitest";
import { createFixture, createFolderFixture } from "./fixture.ts";
import { createS3Fixture } from "./s3-fixture.ts";

// two processors that others keep busy take ten times as long
const deadlineMs = 50_000;
const isDeep = process.env["SLUICE_DEEP"] !== undefined;

/** The bridge is the same over every adapter: rules whose outcome hangs on the adapter, unless all are asked for. */
function defineAdapterTests(createAdapterFixture: CreateFixture, only: readonly string[]): void {
  if (isDeep) return defineBackendTests(test, createAdapterFixture, { deadlineMs });
  test(`${only.join(", ")} (every rule with SLUICE_DEEP=1)`, { tags: "slow" }, async () => {
    const findings = await checkBackend(createAdapterFixture, { only, deadlineMs });
    expect(findings.filter(({ outcome }) => outcome === "broken")).toEqual([]);
    // a rule that is named here and absent would go unnoticed
    const kept = findings.filter(({ outcome }) => outcome === "kept").map(({ rule }) => rule.id);
    for (const name of only)
      expect(kept).toContainEqual(expect.stringMatching(new RegExp(`^${name}(?:-|$)`)));
  });
}

describe("over the memory adapter", () => {
  defineBackendTests(test, createFixture, { deadlineMs });
});
describe("over the folder adapter", () => {
  defineAdapterTests(createFolderFixture, [
    "describe",
    "open",
    "range-large",
    "condition",
    "key",
    "list",
  ]);
});
describe("over the S3 adapter", () => {
  defineAdapterTests(createS3Fixture, [
    "describe-large",
    "describe-etag-changes",
    "open-back-pressure",
    "range-large",
    "range-ignored",
    "condition",
    "failure",
    "abort-mid-body",
    "abort-break",
    "key-punctuation",
    "key-literal",
    "list-pages",
    "list-clutter",
    "presign",
  ]);
});
