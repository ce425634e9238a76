import { defineBackendTests } from "@sluice/storage/conformance";
import { test, vi } from "vitest";
import { createFixture } from "./fixture.ts";

// a disk that others write to answers late
vi.setConfig({ testTimeout: 60_000 });

defineBackendTests(test, createFixture, { deadlineMs: 50_000 });
