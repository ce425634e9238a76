import { expect, test } from "vitest";
import { cancelledBy, isRequest, isResponse, keyOf } from "@sluice/core";

test.each([
  ["a request", { id: 1, method: "ping" }, [true, false]],
  ["a request with an empty id", { id: "", method: "ping" }, [true, false]],
  ["a notification", { method: "ping" }, [false, false]],
  ["a request without a real id", { id: null, method: "ping" }, [false, false]],
  ["a result", { id: 1, result: {} }, [false, true]],
  ["an error", { id: "1", error: { code: 1 } }, [false, true]],
  ["a result beside an empty error", { id: 1, result: {}, error: null }, [false, true]],
  ["an error of no request", { id: null, error: {} }, [false, false]],
  ["a response with a method", { id: 1, method: "ping", result: {} }, [true, false]],
  ["a response with nothing", { id: 1 }, [false, false]],
  ["an infinite id", { id: Infinity, result: {} }, [false, false]],
  ["an array", [{ id: 1, method: "ping" }], [false, false]],
  ["no message", null, [false, false]],
  ["text", "ping", [false, false]],
])("%s is told from the others", (_, message, kinds) => {
  expect([isRequest(message), isResponse(message)]).toEqual(kinds);
});

test("a cancellation names its request", () => {
  const method = "notifications/cancelled";
  expect(cancelledBy({ method, params: { requestId: 7 } })).toBe(7);
  expect(cancelledBy({ method, params: { requestId: {} } })).toBeUndefined();
  expect(cancelledBy({ method })).toBeUndefined();
  const progress = { method: "notifications/progress", params: { requestId: 7 } };
  expect(cancelledBy(progress)).toBeUndefined();
  expect(cancelledBy(null)).toBeUndefined();
});

test("ids of two types are two keys", () => {
  expect(keyOf(5)).not.toBe(keyOf("5"));
  expect(keyOf(undefined)).toBe("");
});
