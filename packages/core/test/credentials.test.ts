import { expect, test } from "vitest";
import { withoutCredentials } from "../src/internal.ts";

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
  ["https://h/x?X-Amz-Security-Token=00ff", "https://h/x?X-Amz-Security-Token=…"],
  ["https://h/x?X-Goog-Signature=00ff", "https://h/x?X-Goog-Signature=…"],
  ["https://h/x?access_token=a.b-c&x=1", "https://h/x?access_token=…&x=1"],
  ["https://h/#refresh_token=a", "https://h/#refresh_token=…"],
  ["https://h/x?Expires=1&Signature=a%2B", "https://h/x?Expires=1&Signature=…"],
  ["aws_secret_access_key=x db.password=y", "aws_secret_access_key=… db.password=…"],
  ["SharedAccessSignature=sv;shared_access_key=x", "SharedAccessSignature=…;shared_access_key=…"],
  ["postgres://ada:hunter/2@h/db", "postgres://…@h/db"],
  ["https://ada:hunter?2@h/x", "https://…@h/x"],
  ["https://a:b@h/x@y,https://c:d@h", "https://…@h/x@y,https://…@h"],
  ["--url=ada:pass=word@h:1/x", "--url=…@h:1/x"],
  ["x/y=ada:hunter2@h.example", "x/y=…@h.example"],
  ["--env=API_TOKEN=abc", "--env=API_TOKEN=…"],
])("removes credentials from %s", (text, clean) => {
  expect(withoutCredentials(text)).toBe(clean);
});

test.each([
  "files://local/a@b.txt",
  "https://host/a?b=c",
  "https://host:8080/a@b.txt",
  "mail me@example.com",
  "files://local/a:b@c.txt",
  "a/b:c@d.txt",
  "design=1",
  "assigned=1",
])("leaves %s as it is", (text) => {
  expect(withoutCredentials(text)).toBe(text);
});
