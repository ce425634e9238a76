import { expect, test } from "vitest";
import { streamResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { acceptUrl, type UrlPolicy } from "../src/trust/accept-url.ts";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer } from "./raw-server.ts";

const hosts = [
  "evil.example",
  "mcp.example.com.evil.example",
  "mcp.example.com.",
  "xmcp.example.com",
  "mcp.example.co",
  "mcp-example.com",
  "MCP.EXAMPLE.COM.",
  "mcp.example.com:8443",
  "mcp.example.com:80",
  "mcp%2eexample.com",
  "mcp.ex%61mple.com",
  "mcp.exаmple.com",
  "xn--mcp-5cd.example.com",
  "mcp。example。com",
  "127.0.0.1",
  "2130706433",
  "0x7f000001",
  "0177.0.0.1",
  "127.1",
  "[::1]",
  "[::ffff:127.0.0.1]",
  "169.254.169.254",
  "localhost",
  "0.0.0.0",
  "user@mcp.example.com",
  "user:password@mcp.example.com",
  "mcp.example.com@evil.example",
  "mcp.example.com:443@evil.example",
  "mcp.example.com%00.evil.example",
  "mcp.example.com\\.evil.example",
  "mcp.example.com\t.evil.example",
  " mcp.example.com",
  "mcp.example.com\n",
  "",
  "[mcp.example.com]",
  "mcp.example.com:99999",
];
const schemes = ["https://", "http://", "HTTPS:\\\\", "https:/", "//", "ftp://"];
const others = [
  "data:application/octet-stream;base64,AAAA",
  "file:///etc/passwd",
  "javascript:alert(1)",
  "blob:https://mcp.example.com/1",
  "ws://mcp.example.com/",
  "wss://mcp.example.com/",
  "about:blank",
  "mailto:a@b",
  "/relative/without/base",
  "relative",
  "",
  "https:mcp.example.com/d",
  "https:///mcp.example.com/d",
  "https://mcp.example.com/d#fragment",
  "https://mcp.example.com/d#",
  `https://mcp.example.com/${"a".repeat(2_048)}`,
  "https://mcp.example.com/a b",
  "https://mcp.example.com/a\r\nHost: evil.example",
  "https://mcp.example.com/\u202egpj",
  "view-source:https://mcp.example.com/",
];
const combined = hosts.flatMap((host) => schemes.map((scheme) => `${scheme}${host}/d`));
const hostile = [...combined, ...others];

const policy: UrlPolicy = {
  endpoint: new URL("https://mcp.example.com/mcp"),
  trustedOrigins: [],
};

test("hostile addresses are refused before anything is sent", () => {
  expect(hostile.length).toBeGreaterThanOrEqual(200);
  for (const url of hostile)
    expect(() => acceptUrl(url, policy, { redirect: false }), JSON.stringify(url)).toThrow(
      expect.objectContaining({ code: "untrusted" }),
    );
});

test("a check of the origin alone would let some of them through", () => {
  const naive = hostile.filter(
    (url) => URL.canParse(url) && new URL(url).origin === policy.endpoint?.origin,
  );
  expect(naive.length).toBeGreaterThan(5);
});

test("the endpoint's own origin passes in every harmless spelling", () => {
  for (const url of [
    "https://mcp.example.com/streams/v1.aa.b",
    "https://mcp.example.com:443/d?x=%2F..%2f&y='(!)*",
    "HTTPS://MCP.example.com/d",
    "https://mcp.example.com",
  ])
    expect(acceptUrl(url, policy, { redirect: false }).standing, url).toBe("own");
});

test("an opaque query reaches the server as it was signed", () => {
  const url = "https://mcp.example.com/a%2Fb?sig=%2b%20+&X-Amz=%7E";
  expect(acceptUrl(url, policy, { redirect: false }).url.href).toBe(url);
});

test("trusted origins are exact, or leave one label open", () => {
  const wide = {
    ...policy,
    trustedOrigins: ["https://cdn.example.com", "https://*.blob.core.windows.net"],
  };
  const standing = (url: string): string => {
    try {
      return acceptUrl(url, wide, { redirect: true }).standing;
    } catch {
      return "refused";
    }
  };
  expect(standing("https://cdn.example.com/x")).toBe("trusted");
  expect(standing("https://account.blob.core.windows.net/x?sig=1")).toBe("trusted");
  expect(standing("https://a.b.blob.core.windows.net/x")).toBe("refused");
  expect(standing("https://blob.core.windows.net/x")).toBe("refused");
  expect(standing("https://.blob.core.windows.net/x")).toBe("refused");
  expect(standing("https://account.blob.core.windows.net:8443/x")).toBe("refused");
  expect(standing("http://cdn.example.com/x")).toBe("refused");
  expect(standing("https://x.cdn.example.com/x")).toBe("refused");
});

test.each([
  "cdn.example.com",
  "https://*.com",
  "https://a.*.example.com",
  "https://cdn.example.com/files",
  "*",
  "",
  "https://me@cdn.example.com",
  "https://cdn.example.com?x",
  "ftp://cdn.example.com",
  "file:///etc",
  "javascript:1",
])("an invalid trusted origin is refused with how to write it: %s", async (text) => {
  const refusal = {
    code: "invalid_argument",
    message: expect.stringContaining("https://*.example.com"),
  };
  const call = (): unknown =>
    acceptUrl("https://a.example/", { ...policy, trustedOrigins: [text] }, { redirect: true });
  expect(call).toThrow(expect.objectContaining(refusal));
  let called = false;
  const client = { request: async () => (called = true) };
  const streaming = streamResource(client, "x://a", { trustedOrigins: [text] });
  await expect(streaming).rejects.toMatchObject(refusal);
  expect(called).toBe(false);
});

test("redirects to any public origin are for HTTPS and its own port, and only when asked for", () => {
  const open: UrlPolicy = { ...policy, trustedOrigins: ["public-https"] };
  expect(acceptUrl("https://s3.example/x", open, { redirect: true }).standing).toBe("public");
  for (const url of ["http://s3.example/x", "https://s3.example:8443/x"])
    expect(() => acceptUrl(url, open, { redirect: true })).toThrow("address");
  expect(() => acceptUrl("https://s3.example/x", open, { redirect: false })).toThrow("address");
});

test("plain HTTP works between loopback addresses only, and never after HTTPS", () => {
  const local = { ...policy, endpoint: new URL("http://localhost:3000/mcp") };
  expect(acceptUrl("http://localhost:3000/d", local, { redirect: false }).standing).toBe("own");
  expect(() => acceptUrl("http://192.168.0.1:3000/d", local, { redirect: false })).toThrow(
    "address",
  );
  const intranet = { ...policy, endpoint: new URL("http://10.0.0.1/mcp") };
  expect(() => acceptUrl("http://10.0.0.1/d", intranet, { redirect: false })).toThrow("address");
  const base = new URL("https://localhost/d");
  expect(() => acceptUrl("http://localhost:3000/d", local, { base, redirect: true })).toThrow(
    "address",
  );
});

/** Spellings of this machine: endpoint and what the server names. */
const loopbacks = ["localhost", "127.0.0.1", "[::1]"];

test.each(loopbacks.flatMap((one) => loopbacks.map((other) => [one, other])))(
  "an endpoint at %s and an address at %s with one port are one origin: that of the endpoint",
  (one, other) => {
    const local = { ...policy, endpoint: new URL(`http://${one}:3000/mcp`) };
    const accept = (address: string, trustedOrigins: readonly string[] = []) =>
      acceptUrl(address, { ...local, trustedOrigins }, { redirect: false });
    const { url, standing } = accept(`http://${other}:3000/d?a=1`);
    expect([url.href, standing]).toEqual([`http://${one}:3000/d?a=1`, "own"]);
    // a forwarded port is another program's, unless it is trusted
    expect(() => accept(`http://${other}:80/d`)).toThrow("forwarded? set its public URL");
    expect(accept(`http://${other}:81/d`, [`http://${other}:81`]).standing).toBe("trusted");
    expect(() => accept(`http://127.0.0.2:3000/d`)).toThrow("address");
    expect(() => accept(`http://localhost.example:3000/d`)).toThrow("address");
    const secure = { ...policy, endpoint: new URL(`https://${one}/mcp`) };
    expect(() => acceptUrl(`http://${other}:443/d`, secure, { redirect: false })).toThrow(
      "address",
    );
  },
);

test("bytes come from the address of the endpoint when its server names this machine otherwise", async () => {
  await using server = await startRawServer({
    stream: (request, res) =>
      replyUrl(res, request, `${server.origin.replace("127.0.0.1", "localhost")}/d`),
  });
  const client = createRawClient(server.url, withStreaming());
  await streamResource(client, "x://a").catch(() => {});
  const [fetched] = server.seen.filter(({ method }) => method === "GET");
  expect(fetched?.headers.host).toBe(new URL(server.origin).host);
});

test("a hostile download URL gets no request at all", { tags: "slow" }, async () => {
  await using canary = await startRawServer({});
  await using server = await startRawServer({
    stream(request, res) {
      replyUrl(res, request, request.params.uri);
    },
  });
  const client = createRawClient(server.url, withStreaming());
  const local = [
    `${canary.origin}/d`,
    `${server.origin.replace("127.0.0.1", "127.0.0.2")}/d`,
    `${server.origin.replace("http:", "https:")}/d`,
    `${server.origin.replace("//", "//user@")}/d`,
    `${server.origin}/d#x`,
  ];
  for (const url of [...local, ...hostile])
    await expect(streamResource(client, url), JSON.stringify(url)).rejects.toMatchObject({
      code: "untrusted",
    });
  expect(canary.connections()).toBe(0);
  expect(server.seen.filter(({ method }) => method !== "POST")).toEqual([]);
});
