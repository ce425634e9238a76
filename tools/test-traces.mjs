// Test files share processes. What a file changes of its process must be as before when it ends.
import { deepEqual } from "node:assert/strict";
import { afterAll, vi } from "vitest";

const traces = () => ({
  clock: vi.isFakeTimers() || vi.isMockFunction(Date.now) ? "replaced" : "real",
  environment: { ...process.env },
  folder: process.cwd(),
  stackTraceLimit: Error.stackTraceLimit,
  exitCode: process.exitCode,
  listeners: Object.fromEntries(
    process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
  ),
});

const before = traces();
afterAll(() => deepEqual(traces(), before));
