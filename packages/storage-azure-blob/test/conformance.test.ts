// @module-tag slow
import { defineBackendTests } from "@sluice/storage/conformance";
import { test, vi } from "vitest";
import { startMs } from "./azurite.ts";
import { createFixture } from "./fixture.ts";

// an emulator that shares its processors answers late
vi.setConfig({ testTimeout: startMs });

defineBackendTests(test, createFixture, { deadlineMs: 50_000 });
