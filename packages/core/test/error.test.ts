import { SluiceError } from "@sluice/core";
import { errorTable } from "@sluice/core/internal";
import { expect, test } from "vitest";

test("an error carries its cause and only the facts it was given", () => {
  const cause = new Error("ENOENT");
  const error = new SluiceError("not_found", "fs: open a: gone", { cause });
  expect(error).toMatchObject({ name: "SluiceError", code: "not_found", cause, retryable: false });
  expect(Object.keys(error)).not.toContain("retryAfterMs");
  expect("cause" in new SluiceError("internal", "x")).toBe(false);
  expect("origin" in error).toBe(false);
  expect(new SluiceError("expired", "x", { origin: "uploads" }).origin).toBe("uploads");
  const busy = new SluiceError("throttled", "s3: slow down", { retryAfterMs: 5, size: 7 });
  expect(busy).toMatchObject({ retryAfterMs: 5, size: 7, retryable: true });
});

test("an error of another copy of the package is known by its shape", () => {
  const foreign = Object.assign(new Error("x"), { name: "SluiceError", code: "expired" });
  expect(SluiceError.is(foreign)).toBe(true);
  expect(SluiceError.is(new SluiceError("expired", "x"))).toBe(true);
  for (const other of [
    new Error("x"),
    undefined,
    "x",
    7,
    {},
    { name: "SluiceError" },
    { name: "SluiceError", code: "toString" },
  ])
    expect(SluiceError.is(other)).toBe(false);
});

test("no code of the specification's is emitted in its own era", () => {
  for (const [reason, { modern }] of Object.entries(errorTable)) {
    expect(modern).not.toBe(-32002);
    const isReserved = modern <= -32020 && modern >= -32099;
    expect(isReserved).toBe(reason === "client_capability");
  }
});
