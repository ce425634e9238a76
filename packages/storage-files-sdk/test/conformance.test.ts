import { defineBackendTests } from "@sluice/storage/conformance";
import { describe, test } from "vitest";
import { createFixture, createFolderFixture } from "./fixture.ts";
import { createS3Fixture } from "./s3-fixture.ts";

describe("over the memory adapter", () => {
  defineBackendTests(test, createFixture);
});
describe("over the folder adapter", () => {
  defineBackendTests(test, createFolderFixture);
});
describe("over the S3 adapter", () => {
  defineBackendTests(test, createS3Fixture);
});
