import { defineBackendTests } from "@sluice/storage/conformance";
import { test, vi } from "vitest";
import { createFixture } from "./fixture.ts";

// an emulator that shares its processors answers late
vi.setConfig({ testTimeout: 60_000 });

defineBackendTests(test, createFixture, { deadlineMs: 50_000 });
