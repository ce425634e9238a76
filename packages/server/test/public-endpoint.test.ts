import { generateKey } from "@sluice/core";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";

/** What `createSluice` says of its options. */
function warningsOf(options: Partial<SluiceOptions>): string[] {
  const warnings: string[] = [];
  createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint: "https://files.example.com/mcp",
    keys: [generateKey()],
    onWarning: (message) => void warnings.push(message),
    ...options,
  } as SluiceOptions);
  return warnings;
}

const principal = (): undefined => undefined;

test("a public endpoint that nothing guards does not start, and says what to set", () => {
  for (const options of [{}, { anonymous: false }])
    expect(() => warningsOf(options)).toThrow(/public.*pass principal.*anonymous: true/);
});

test.each([
  ["a principal resolver", { principal }],
  ["anonymous: true", { anonymous: true }],
  ["a loopback address", { endpoint: "http://127.0.0.1:3000/mcp" }],
])("with %s it starts without a warning", (_name, options) => {
  expect(warningsOf(options)).toEqual([]);
});

test.each([
  ["https://x.example", "https://x.example"],
  ["https://x.example/", "https://x.example"],
  ["https://x.example/mcp/", "https://x.example/mcp"],
  ["https://x.example/a/../b/mcp/", "https://x.example/b/mcp"],
  ["https://X.example/M%C3%A9/Mcp", "https://x.example/M%C3%A9/Mcp"],
])("the endpoint %s has one spelling: %s", (endpoint, url) => {
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint,
    keys: [generateKey()],
    anonymous: true,
  });
  expect(sluice.endpoint.url).toBe(url);
});

test.each([
  "https://x.example/a//mcp",
  "https://x.example/mcp//",
  "https://x.example/a%2Fmcp",
  "https://x.example/a%5cmcp",
])("an endpoint whose path has a second spelling is refused: %s", (endpoint) => {
  expect(() => warningsOf({ endpoint })).toThrow("one spelling");
});
