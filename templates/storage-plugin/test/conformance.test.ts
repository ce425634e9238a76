import { test } from "node:test";
import { defineBackendTests } from "@sluice/storage/conformance";
import { createFixture } from "./fixture.ts";

defineBackendTests(test, createFixture);
