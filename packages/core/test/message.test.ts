import {
  cancelledBy,
  isRequest,
  isResponse,
  keyOf,
  namesMethod,
  readJson,
  readRpc,
} from "@sluice/core/internal";
import { expect, test, vi } from "vitest";

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
])("%s is distinguished from the others", (_, message, kinds) => {
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

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };

test.each<[string, object]>([
  ["a request", ping],
  ["a request with params", { ...ping, id: "a", params: {} }],
  ["a notification", { jsonrpc: "2.0", method: "x" }],
  ["a result", { jsonrpc: "2.0", id: 1, result: {} }],
  ["an error", { jsonrpc: "2.0", id: 1, error: { code: 1, message: "" } }],
  ["an error of no request", { jsonrpc: "2.0", id: null, error: { code: 1, message: "" } }],
])("%s is a message", (_what, message) => {
  expect(readRpc(JSON.stringify(message))).toEqual({ message });
});

test.each<[string, unknown]>([
  ["a batch", [ping]],
  ["null", null],
  ["a call without a version", { id: 1, method: "ping" }],
  ["a request with null for an id", { ...ping, id: null }],
  ["a request with an id that cannot be given back", { ...ping, id: 2 ** 53 }],
  ["params that are a list", { ...ping, params: [] }],
  ["a call with a result", { ...ping, result: {} }],
  ["a result without an id", { jsonrpc: "2.0", result: {} }],
  ["a result beside an error", { jsonrpc: "2.0", id: 1, result: {}, error: { code: 1 } }],
  ["an error without a message", { jsonrpc: "2.0", id: 1, error: { code: 1 } }],
])("%s is not a message", (_what, value) => {
  expect(readRpc(JSON.stringify(value)).fault).toMatchObject({ code: -32_600 });
});

test("a text that is no JSON is a parse error that does not quote it", () => {
  expect(readRpc("{secret")).toEqual({
    fault: { code: -32_700, message: "Parse error: Invalid JSON" },
  });
});

test("a text nested deeper than 128 levels is refused before it is parsed", () => {
  const text = (levels: number): string =>
    `{"jsonrpc":"2.0","id":1,"method":"ping","a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  expect(readRpc(text(127)).message).toHaveProperty("method", "ping");
  const parse = vi.spyOn(JSON, "parse");
  try {
    expect(readJson(text(128)).fault?.message).toBe("Parse error: nested deeper than 128 levels");
    expect(parse).not.toHaveBeenCalled();
  } finally {
    parse.mockRestore();
  }
});

test("anything that names a method is a call to filters, however odd it is", () => {
  expect(namesMethod({ method: "resources/read", id: 1.5, params: [] })).toBe(true);
  expect([{ method: 1 }, [ping], null, "ping"].map(namesMethod)).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
