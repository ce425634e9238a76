import { defineBackendTests } from "@sluice/storage/conformance";
import { describe, test } from "vitest";
import { createFixture, createFolderFixture } from "./fixture.ts";

describe("over the memory adapter", () => {
  defineBackendTests(test, createFixture);
});
describe("over the folder adapter", () => {
  defineBackendTests(test, createFolderFixture);
});
