import { checkBackend, defineBackendTests } from "@sluice/storage/conformance";
import { expect, test } from "vitest";
import { createFixture } from "./fixture.ts";

// two processors that others keep busy take ten times as long
const deadlineMs = 50_000;

defineBackendTests(test, () => createFixture("business"), { deadlineMs });

// where the two kinds of drives differ: tags, ids, the spelling of paths, what changes look like
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const differing = [
  "describe-facts",
  "describe-etag",
  "describe-canonical",
  "list-pages",
  "list-prefix",
  "list-clutter",
  "key-punctuation",
  "key-case",
  "key-outside",
  "condition-current",
  "condition-stale",
  "write-visible",
  "watch-removal",
];

test("a personal drive keeps the rules as well", async () => {
  const findings = await checkBackend(
    () => createFixture("personal"),
    isDeep ? { deadlineMs } : { deadlineMs, only: differing },
  );
  expect(findings.length).toBeGreaterThan(differing.length);
  expect(findings.filter(({ outcome }) => outcome === "broken")).toEqual([]);
});
