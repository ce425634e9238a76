import { defineBackendTests } from "@sluice/storage/conformance";
import { test } from "vitest";
import { createFixture } from "./fixture.ts";

defineBackendTests(test, createFixture);
