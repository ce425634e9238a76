import mime from "mime";
import other from "mime/types/other.js";
import standard from "mime/types/standard.js";
import { expect, test } from "vitest";
import { textKinds } from "../../../e2e/bed/text-kinds.ts";
import { beginsAsText, isTextual, knownType, resourceType } from "../src/content/resource-type.ts";
import { registeredType } from "../src/content/type-names.ts";

const encoder = new TextEncoder();

test("an extension has the type that mime gives it", () => {
  const tables: Readonly<Record<string, readonly string[]>>[] = [standard, other];
  const names = tables.flatMap((table) => Object.values(table).flat());
  const extensions = names.map((name) => name.replace("*", ""));
  expect(extensions.length).toBeGreaterThan(1_000);
  for (const extension of [...extensions, "", "unheard-of"])
    expect(registeredType(extension) ?? null, extension).toBe(mime.getType(`/x.${extension}`));
});

test("a decision by the type of the name alone would miss half of the everyday kinds of text", () => {
  const isMissed = (name: string): boolean => !isTextual(mime.getType(name) ?? "");
  const byName = Object.keys(textKinds).filter(isMissed);
  expect(byName.length).toBeGreaterThan(40);
  const byBytes = Object.entries(textKinds).filter(
    ([key, text]) => !beginsAsText({ key }, encoder.encode(text)),
  );
  expect(byBytes).toEqual([]);
});

test.each([
  ["video.ts", undefined, "text/typescript", "video/mp2t"],
  ["lib.rs", "text/x-rust", "text/x-rust", "text/x-rust"],
  ["a/png", undefined, "text/plain", "application/octet-stream"],
  ["a/Dockerfile", "text/x-dockerfile", "text/x-dockerfile", "text/x-dockerfile"],
  ["a.dir/README.weird", "text/plain", "text/plain", "text/plain"],
  ["readme.png", "image/png", "image/png", "image/png"],
  [".png", undefined, "text/plain", "application/octet-stream"],
  ["trailing.", undefined, "text/plain", "application/octet-stream"],
  ["x.unheard-of", undefined, "text/plain", "application/octet-stream"],
])("%s is %s by name, %s as text, %s as bytes", (key, known, text, binary) => {
  expect(knownType({ key })).toBe(known);
  expect([resourceType({ key }, true), resourceType({ key }, false)]).toEqual([text, binary]);
});

test.each(["", "application/octet-stream", "binary/octet-stream", "no type", "text"])(
  "a stored type %j says nothing",
  (contentType) => {
    expect(knownType({ key: "x.py", contentType })).toBe("text/x-python");
    expect(beginsAsText({ key: "x", contentType }, encoder.encode("x"))).toBe(true);
  },
);

test.each([
  ["image/png", "text", false],
  ["text/plain", "\0", true],
  ["text/plain; charset=utf-16le", "text", false],
  ["application/x-tex", "text", true],
  ["application/x-tex", "\0", false],
  ["image/svg+xml", "<svg/>", true],
])("stored as %s, %j begins as text: %s", (contentType, content, isText) => {
  expect(beginsAsText({ key: "x", contentType }, encoder.encode(content))).toBe(isText);
});

test("a character that the first bytes end in does not make bytes of text", () => {
  const bytes = encoder.encode("ä€😀");
  for (let end = 0; end <= bytes.length; end++)
    expect(beginsAsText({ key: "x" }, bytes.subarray(0, end))).toBe(true);
  expect(beginsAsText({ key: "x" }, bytes.subarray(1))).toBe(false);
});
