// Test files share processes. What a file changes of its process must be as before when it ends.
import { deepEqual } from "node:assert/strict";
import { statSync } from "node:fs";
import { afterAll, vi } from "vitest";

const { env } = process;

const traces = () => ({
  clock:
    vi.isFakeTimers() || vi.isMockFunction(Date.now) || Object.hasOwn(performance, "now")
      ? "replaced"
      : "real",
  // another object is not what a child process gets, and nothing that is stubbed in it goes again
  ownEnvironment: process.env === env,
  environment: { ...process.env },
  folder: process.cwd(),
  stackTraceLimit: Error.stackTraceLimit,
  exitCode: process.exitCode,
  listeners: Object.fromEntries(
    process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
  ),
});

// after a stat of a pipe or a socket, Node 20 loads what lies behind a link under the name of the link,
// where it finds other dependencies: so the last thing looked at is a folder
statSync(".");

const before = traces();
afterAll(() => deepEqual(traces(), before));
