import { contentCodings } from "@sluice/core/internal";
import { expect, test } from "vitest";

test.each([
  [undefined, []],
  ["", []],
  ["gzip", ["gzip"]],
  [" GZIP ,br,, identity", ["gzip", "br"]],
  ["utf-8", []],
  ["aws-chunked,gzip", ["aws-chunked", "gzip"]],
  ["lzma", ["lzma"]],
])("content codings in %j", (header, expected) => {
  expect(contentCodings(header)).toEqual(expected);
});
