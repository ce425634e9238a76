import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { siteOf } from "../src/lib/nginx.ts";
import { readSettings } from "../src/lib/settings.ts";

const right = {
  NAME: "a",
  PUBLIC_URL: "https://files.example.com/mcp",
  ACCESS_TOKENS: "ann=0123456789abcdef,bob=fedcba9876543210",
  KEYS_FILE: "/etc/sluice/keys",
  AUDIT_FILE: "/var/log/sluice/a.log",
  REDIS_URL: "redis://127.0.0.1:6379",
  S3_BUCKET: "files",
};

test("an absent or empty setting has a default", () => {
  const { tokens, ...settings } = readSettings({ ...right, HOST: "", S3_ENDPOINT: "" });
  expect(settings).toMatchObject({
    host: "127.0.0.1",
    port: 0,
    redisDurable: false,
    requestsPerMinute: 600,
    drainMs: 25_000,
    s3Endpoint: undefined,
  });
  expect(tokens.get("fedcba9876543210")).toBe("bob");
});

test.each([
  ["NAME", ""],
  ["NAME", "a\nb"],
  ["PORT", "70000"],
  ["PUBLIC_URL", "files.example.com/mcp"],
  ["PUBLIC_URL", "https://files.example.com/"],
  ["PUBLIC_URL", "https://files.example.com/files/mcp"],
  ["PUBLIC_URL", "https://files.example.com/?/mcp"],
  ["PUBLIC_URL", "ftp://files.example.com/mcp"],
  ["ACCESS_TOKENS", "ann=short"],
  ["ACCESS_TOKENS", "ann=0123456789abcdef,bob=0123456789abcdef"],
  ["ACCESS_TOKENS", undefined],
  ["KEYS_FILE", undefined],
  ["REDIS_URL", "redis:6379"],
  ["REDIS_URL", "redis://user:secret@redis:99999"],
  ["REDIS_DURABLE", "perhaps"],
  ["S3_BUCKET", undefined],
  ["S3_BUCKET", ""],
  ["S3_ENDPOINT", "store:9000"],
  ["DRAIN_SECONDS", "soon"],
])("%s of %s is refused by name, and no value is repeated", (name, value) => {
  const read = () => readSettings({ ...right, [name]: value });
  expect(read).toThrow(new RegExp(`^cluster: .*\n  ${name} .+$`));
  expect(read).not.toThrow(value || "undefined");
});

test("all that is wrong is said at once", () => {
  expect(() => readSettings({})).toThrow(/NAME[^]*PUBLIC_URL[^]*ACCESS_TOKENS[^]*S3_BUCKET/);
});

const site =
  "```nginx\nupstream x {\n  server 127.0.0.1:8001 max_fails=0;\n  server 127.0.0.1:8002 max_fails=0;\n}\nserver {\n  listen 8000;\n}\n```\n";

test("the page has a configuration that can be used so", async () => {
  const page = await readFile(
    new URL("../../../docs/guides/deploy/nginx.md", import.meta.url),
    "utf8",
  );
  const used = siteOf(page, { port: 1, processes: [11, 12] });
  expect(used.match(/server 127\.0\.0\.1:\d+/g)).toEqual([
    "server 127.0.0.1:11",
    "server 127.0.0.1:12",
  ]);
  expect(used).toContain("listen 127.0.0.1:1;");
});

test("the configuration of the page is used with as many processes as there are", () => {
  expect(siteOf(site, { port: 1, processes: [11, 12, 13] })).toBe(
    "upstream x {\n" +
      [11, 12, 13].map((port) => `  server 127.0.0.1:${port} max_fails=0;\n`).join("") +
      "}\nserver {\n  listen 127.0.0.1:1;\n}\n",
  );
});

test.each(["", site.replace("8000", "80"), site.replaceAll("127.0.0.1:", "a:")])(
  "a page that no longer says what is replaced is an error",
  (page) => {
    expect(() => siteOf(page, { port: 1, processes: [11] })).toThrow("docs/guides/deploy/nginx.md");
  },
);
