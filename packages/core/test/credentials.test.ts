import { expect, test } from "vitest";
import { withoutCredentials } from "../src/index.ts";

test.each([
  ["https://user:pa%40ss@host/mcp", "https://…@host/mcp"],
  ['"redis://:p@ss@host:6379/0" is not a URL', '"redis://…@host:6379/0" is not a URL'],
  ["https://token@host", "https://…@host"],
  ['"ada:hunter2@h.example/mcp" is not a URL', '"…@h.example/mcp" is not a URL'],
  [
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0==;EndpointSuffix=x",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=…;EndpointSuffix=x",
  ],
  ["https://a.blob/c?sv=1&sig=abc%2B&se=2", "https://a.blob/c?sv=1&sig=…&se=2"],
  ["unknown option '--token=abc'", "unknown option '--token=…'"],
  ["s3://bucket?secret_access_key=x", "s3://bucket?secret_access_key=…"],
  ["https://h/x?X-Amz-Signature=00ff", "https://h/x?X-Amz-Signature=…"],
])("removes credentials from %s", (text, clean) => {
  expect(withoutCredentials(text)).toBe(clean);
});

test.each(["files://local/a@b.txt", "https://host/a?b=c", "mail me@example.com", "design=1"])(
  "leaves %s as it is",
  (text) => {
    expect(withoutCredentials(text)).toBe(text);
  },
);
