import { expect, test } from "vitest";
import { inlineType, isActiveType, isProtocolType } from "../src/http/media-types.ts";

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

test.each([
  ["image/png", "image/png"],
  ["image/jpeg", "image/jpeg"],
  ["audio/mpeg", "audio/mpeg"],
  ["video/mp4", "video/mp4"],
  ["application/pdf", "application/pdf"],
  ["application/json", "application/json"],
  ["text/plain", "text/plain; charset=utf-8"],
  ["text/csv; charset=iso-8859-1", "text/plain; charset=iso-8859-1"],
  ["text/x-python", "text/plain; charset=utf-8"],
])("a browser shows %s as %s", (type, shown) => {
  expect(inlineType(type)).toBe(shown);
});

// the lower half are types that a list of forbidden ones did not have
test.each([
  "text/html",
  "text/css",
  "text/javascript",
  "image/svg+xml",
  "application/xhtml+xml",
  "application/wasm",
  "multipart/related",
  "multipart/x-mixed-replace",
  "message/rfc822",
  "application/x-mimearchive",
  "application/hta",
  "application/vnd.ms-htmlhelp",
  "application/java-archive",
  "application/x-silverlight-app",
  "application/octet-stream",
  "image/x-unknown",
  "font/woff2",
  "model/gltf+json",
  "unknown",
])("a browser does not show %s", (type) => {
  expect(inlineType(type)).toBeUndefined();
});
