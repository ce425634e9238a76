import { namesMethod, readJson, readRpc } from "@sluice/core";
import { expect, test, vi } from "vitest";

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
])("%s is no message", (_what, value) => {
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

test("what names a method is a call to filters, however odd it is", () => {
  expect(namesMethod({ method: "resources/read", id: 1.5, params: [] })).toBe(true);
  expect([{ method: 1 }, [ping], null, "ping"].map(namesMethod)).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
