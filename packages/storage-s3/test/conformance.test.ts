import { defineBackendTests } from "@sluice/storage/conformance";
import { test, vi } from "vitest";
import { createFixture } from "./fixture.ts";

// two processors that others keep busy take ten times as long
vi.setConfig({ testTimeout: 60_000 });

defineBackendTests(test, createFixture, { deadlineMs: 50_000 });
