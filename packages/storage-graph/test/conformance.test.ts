import { defineBackendTests } from "@sluice/storage/conformance";
import { describe, test } from "vitest";
import { createFixture } from "./fixture.ts";

// they differ in tags, ids and the spelling of paths
describe.each(["business", "personal"] as const)("a %s drive", (type) => {
  defineBackendTests(test, () => createFixture(type));
});
