// #region vitest
import { test } from "vitest";
import { defineBackendTests } from "@sluice/storage/conformance";
import { createMemoryFixture } from "./memory-fixture.ts";

defineBackendTests(test, createMemoryFixture);
// #endregion
