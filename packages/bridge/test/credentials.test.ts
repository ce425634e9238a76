import { createHttpUpstream, diagnose, type HttpUpstreamOptions } from "@sluice/bridge";
import { SluiceError } from "@sluice/core";
import { expect, test } from "vitest";
import { SignIn } from "../src/upstream/oauth/sign-in.ts";
import { folderOf } from "./guarded.ts";

/** Everything that a server is shown of a user. */
const credentials: Readonly<Record<string, Pick<HttpUpstreamOptions, "token" | "headers">>> = {
  "a token": { token: "SECRET" },
  "a token that is asked for": { token: () => "SECRET" },
  Authorization: { headers: { Authorization: "Basic SECRET" } },
  "a cookie": { headers: { cookie: "session=SECRET" } },
  "a header of its own": { headers: { "X-Api-Key": "SECRET" } },
};

const clear = [
  "http://other.example/mcp",
  "http://192.168.0.7/mcp",
  "http://0.0.0.0/mcp",
  "http://127.0.0.1.example/mcp",
  "http://localhost.example/mcp",
];
const safe = [
  "https://other.example/mcp",
  "http://127.0.0.1:9/mcp",
  "http://localhost:9/mcp",
  "http://[::1]:9/mcp",
];

const shown = Object.entries(credentials);
const table = shown.flatMap(([name, given]) => clear.map((url) => [name, url, given] as const));

test.each(table)("%s does not go to %s in the clear", async (_, address, given) => {
  const url = new URL(address);
  const refusal = expect.objectContaining({
    code: "untrusted",
    message: expect.stringMatching(/in the clear; use the server's https: address$/),
  });
  expect(() => createHttpUpstream({ endpoint: url, ...given })).toThrow(refusal);
  await expect(diagnose(url, given)).rejects.toEqual(refusal);
  await expect(diagnose(url, given)).rejects.not.toThrow(/SECRET/);
});

test.each(safe)("%s is shown any of them", (address) => {
  for (const given of Object.values(credentials))
    for (const endpoint of [address, new URL(address)])
      expect(createHttpUpstream({ endpoint, ...given }).kind).toBe("http");
});

test("text that is not a URL is refused, and not repeated", async () => {
  const refusal = new SluiceError("invalid_argument", "bridge: the endpoint is not a server URL");
  expect(() => createHttpUpstream({ endpoint: "//ann:SECRET@other" })).toThrow(refusal);
  await expect(diagnose("//ann:SECRET@other")).rejects.toThrow(
    "doctor: the endpoint is not a server URL",
  );
});

test.each(["http://ann:SECRET@127.0.0.1:9/mcp", "https://SECRET@other.example/mcp"])(
  "credentials in the URL %s are refused, and not repeated",
  async (address) => {
    const url = new URL(address);
    expect(() => createHttpUpstream({ endpoint: url })).toThrow(/holds credentials/);
    expect(() => createHttpUpstream({ endpoint: url })).not.toThrow(/SECRET/);
    await expect(diagnose(url)).rejects.toThrow(/holds credentials/);
  },
);

test("plain http to another machine has no sign-in, and sends no token of one", async () => {
  let pages = 0;
  const folder = folderOf();
  const url = new URL("http://other.example/mcp");
  const signIn = new SignIn(url, { folder, openBrowser: () => void pages++ });
  const { provider } = signIn;
  expect(await provider.token()).toBeUndefined();
  const response = new Response("", { status: 401 });
  await expect(provider.onUnauthorized!({ response } as never)).rejects.toThrow(/in the clear/);
  await expect(signIn.widen({ scope: "write" })).rejects.toThrow(/in the clear/);
  expect(pages).toBe(0);
});

test("a server without credentials may be reached over plain http", () => {
  const openBrowser = (): void => {};
  const signIn = { folder: folderOf(), openBrowser };
  expect(createHttpUpstream({ endpoint: new URL(clear[0]!), signIn }).name).toBe(
    "http://other.example",
  );
});
