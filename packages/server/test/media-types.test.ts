import { expect, test } from "vitest";
import { isActiveType, isProtocolType } from "../src/http/media-types.ts";

test("JSON in any form and event streams look like the protocol's own answers", () => {
  for (const type of [
    "application/json",
    "text/json",
    "application/ld+json",
    "text/event-stream",
    "Application/JSON; v=1",
  ])
    expect(isProtocolType(type)).toBe(true);
  for (const type of ["application/octet-stream", "text/plain", "application/jsonl", "image/png"])
    expect(isProtocolType(type)).toBe(false);
});

test("types that a browser may run are active", () => {
  for (const type of [
    "text/html",
    "application/xhtml+xml",
    "image/svg+xml",
    "application/xml",
    "application/pdf",
    "text/javascript",
    "application/x-javascript",
    "text/javascript1.5",
    "text/css",
    "application/wasm",
  ])
    expect(isActiveType(type)).toBe(true);
  for (const type of ["text/plain", "image/png", "application/zip", "application/json", "html"])
    expect(isActiveType(type)).toBe(false);
});
