import { expect, test } from "vitest";
import { ensureStepBytes, smallerStep } from "../src/wire/upload-steps.ts";

const MiB = 2 ** 20;

// bytes of the step that was refused, and of the next one
test.each([
  [Number.MAX_SAFE_INTEGER, 64 * MiB],
  [64 * MiB + 1, 64 * MiB],
  [64 * MiB, 16 * MiB],
  [10_000_000, 4 * MiB],
  [MiB + 1, MiB],
  [MiB, 262_144],
  [65_537, 65_536],
  [65_536, undefined],
  [1, undefined],
])("a proxy's 413 to %i bytes makes the next step %s", (refusedBytes, next) => {
  expect(smallerStep({ status: 413 }, refusedBytes)).toBe(next);
});

test.each([
  ["a 413 with JSON of a gateway", { status: 413, json: { message: "Request Too Long" } }, MiB],
  ["a 413 with a text in JSON", { status: 413, json: "too long" }, MiB],
  ["a 413 with null", { status: 413, json: null }, MiB],
  ["a 413 of our endpoint", { status: 413, json: { reason: "too_large" } }, undefined],
  ["a success", { status: 204 }, undefined],
  ["another refusal", { status: 400 }, undefined],
])("%s decides on a smaller step", (_answer, answer, next) => {
  expect(smallerStep(answer, MiB + 1)).toBe(next);
});

test.each([65_535, 0, -1, 65_536.5, Number.NaN, Infinity, "1M"])(
  "a step of %s is refused at once",
  (bytes) => {
    expect(() => ensureStepBytes("createX", bytes as number)).toThrow(
      "createX: maxStepBytes must be a whole number from 65536",
    );
  },
);

test.each([65_536, undefined])("a step of %s is accepted", (bytes) => {
  expect(() => ensureStepBytes("createX", bytes)).not.toThrow();
});
