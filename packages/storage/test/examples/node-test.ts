// #region runner
import { test } from "node:test";
import { defineBackendTests } from "@sluice/storage/conformance";
import { createMemoryFixture } from "./memory-fixture.ts";

defineBackendTests(test, createMemoryFixture);
// #endregion
