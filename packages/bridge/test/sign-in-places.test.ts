import { createServer } from "node:net";
import type { lookup } from "node:dns";
import { type SluiceError } from "@sluice/client";
import { createPublicLookup } from "@sluice/client/internal";
import { expect, onTestFinished, test, vi } from "vitest";
import { SignIn } from "../src/upstream/oauth/sign-in.ts";
import { SignInPlaces, type PlaceGuard } from "../src/upstream/oauth/sign-in-fetch.ts";
import { folderOf } from "./guarded.ts";

const server = new URL("https://mcp.example/mcp");
/** They stand for the public internet, and are answered here. */
const publicNames: ReadonlySet<string> = new Set(["mcp.example", "login.example"]);
const addresses: Readonly<Record<string, string>> = {
  "local.example": "127.0.0.1",
  "near.example": "10.0.0.7",
  "cloud.example": "169.254.169.254",
  "six.example": "::1",
};
const names = createPublicLookup(((
  name: string,
  _options: unknown,
  done: (error: Error | null, found: unknown) => void,
) => {
  const address = addresses[name];
  if (address === undefined) done(new Error(`no address of ${name}`), []);
  else done(null, [{ address, family: address.includes(":") ? 6 : 4 }]);
}) as unknown as typeof lookup);

/** A service of this machine, and how many connections it got. */
async function startLocal() {
  let count = 0;
  const local = createServer((socket) => {
    count++;
    socket.on("error", () => {});
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET");
  });
  await new Promise<void>((resolve) => local.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void local.close());
  const { port } = local.address() as { port: number };
  return { port, count: () => count };
}

type Answer = (init: RequestInit | undefined) => Response;

/** A sign-in at `server` whose authorization server answers from `answers`. Other addresses are those of the network. */
async function signInWith(
  answers: Readonly<Record<string, Answer>>,
  challenge: string,
  real: PlaceGuard = new SignInPlaces(server, [], names),
) {
  const places: PlaceGuard = {
    ensure: (url) => real.ensure(url),
    fetch: async (input, init) => {
      real.ensure(new URL(input));
      const answer = answers[String(input)];
      if (answer) return answer(init);
      const { hostname } = new URL(input);
      if (publicNames.has(hostname)) return new Response("", { status: 404 });
      return real.fetch(input, init);
    },
  };
  const openBrowser = async (page: URL): Promise<void> => {
    const back = new URL(page.searchParams.get("redirect_uri")!);
    back.search = `code=1&state=${page.searchParams.get("state")}`;
    await (await fetch(back)).text();
  };
  const { provider } = new SignIn(server, { folder: folderOf(), openBrowser }, places);
  const headers = { "www-authenticate": challenge };
  const response = new Response("", { status: 401, headers });
  const refused = provider.onUnauthorized!({ response } as never);
  return refused.then(
    () => undefined,
    (error: unknown) => error as Error,
  );
}

const login = "https://login.example";
const metadataUrl = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

/** What a sign-in asks, in its order. Each answer can be replaced. */
function honest(changed: Readonly<Record<string, unknown>> = {}): Record<string, Answer> {
  const json =
    (value: unknown, status = 200) =>
    () =>
      Response.json(value, { status });
  return {
    [metadataUrl]: json({
      resource: server.href,
      authorization_servers: [changed["authorization_servers"] ?? login],
    }),
    [`${login}/.well-known/oauth-authorization-server`]: json({
      issuer: login,
      authorization_endpoint: `${login}/authorize`,
      token_endpoint: `${login}/token`,
      registration_endpoint: `${login}/register`,
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      ...changed,
    }),
    [`${login}/register`]: (init) =>
      Response.json(
        { ...(JSON.parse(init?.body as string) as object), client_id: "one" },
        { status: 201 },
      ),
    [`${login}/token`]: json({ access_token: "access", token_type: "Bearer" }),
  };
}

const challengeOf = (metadata: unknown = metadataUrl): string =>
  `Bearer resource_metadata="${String(metadata)}"`;

test("a sign-in at public addresses over https succeeds", async () => {
  expect(await signInWith(honest(), challengeOf())).toBeUndefined();
});

const hostile: readonly ((port: number) => string)[] = [
  (port) => `http://127.0.0.1:${port}/x`,
  (port) => `https://127.0.0.1:${port}/x`,
  (port) => `http://localhost:${port}/x`,
  (port) => `https://[::ffff:127.0.0.1]:${port}/x`,
  (port) => `https://local.example:${port}/x`,
  (port) => `https://six.example:${port}/x`,
  () => "https://near.example/x",
  () => "https://10.0.0.7/x",
  () => "https://cloud.example/latest",
  () => "https://169.254.169.254/latest",
  () => "https://0x7f000001/x",
  () => "http://login.example/x",
  () => "https://user:SECRET@login.example/x",
];

/** Where a hostile address can stand. */
const fields = [
  "resource_metadata",
  "authorization_servers",
  "registration_endpoint",
  "token_endpoint",
  "a redirect",
];

const table = fields.flatMap((field) =>
  hostile.map((_, at) => [field, hostile[at]!(1), at] as const),
);

test.each(table)("%s of a remote server is not %s", async (field, _url, at) => {
  const local = await startLocal();
  const url = hostile[at]!(local.port);
  const answers = honest({ [field]: url });
  if (field === "a redirect")
    answers[metadataUrl] = () =>
      new Response("SECRET", { status: 302, headers: { location: url } });
  const challenge = challengeOf(field === "resource_metadata" ? url : undefined);
  const fault = await signInWith(answers, challenge);
  // some the SDK refuses before anything is sent
  expect(["untrusted", "unauthenticated"]).toContain((fault as SluiceError).code);
  expect(String(fault)).not.toContain("SECRET");
  expect(local.count()).toBe(0);
});

test.each(["http://127.0.0.1:1/x", "https://10.0.0.7/x", "http://login.example/x", "file:///x"])(
  "a page to sign in at of a remote server is not %s",
  async (page) => {
    const fault = await signInWith(honest({ authorization_endpoint: page }), challengeOf());
    expect(fault).toBeDefined();
    expect(fault).toHaveProperty("code", expect.stringMatching(/untrusted|unauthenticated/));
  },
);

test.each<[string, string, Answer]>([
  ["registration", `${login}/register`, () => new Response("<b>SECRET</b>", { status: 500 })],
  ["a token", `${login}/token`, () => new Response("SECRET")],
  [
    "a refused token",
    `${login}/token`,
    () => Response.json({ error: "invalid_request", error_description: "SECRET" }, { status: 400 }),
  ],
  ["an odd refusal", `${login}/token`, () => Response.json({ error: "SECRET" }, { status: 400 })],
  ["a token of another form", `${login}/token`, () => Response.json({ SECRET: "SECRET" })],
  [
    "metadata",
    `${login}/.well-known/oauth-authorization-server`,
    () => new Response("SECRET", { headers: { "content-type": "application/json" } }),
  ],
  [
    "a redirect of a code",
    `${login}/token`,
    () => new Response("SECRET", { status: 307, headers: { location: `${login}/SECRET` } }),
  ],
])("no word of an answer to %s reaches the host or standard error", async (_, url, answer) => {
  const printed: unknown[] = [];
  for (const method of ["log", "warn", "error"] as const) {
    const spy = vi.spyOn(console, method).mockImplementation((...said) => void printed.push(said));
    onTestFinished(() => spy.mockRestore());
  }
  const fault = await signInWith({ ...honest(), [url]: answer }, challengeOf());
  expect(fault).toBeInstanceOf(Error);
  expect(`${fault?.message} ${JSON.stringify(printed)}`).not.toContain("SECRET");
});

test.each(["resource_metadata", "token_endpoint"])(
  "negative control: a sign-in that checks no address asks a service of this machine for its %s",
  async (field) => {
    const local = await startLocal();
    const url = `http://127.0.0.1:${local.port}/x`;
    const challenge = challengeOf(field === "resource_metadata" ? url : undefined);
    const trusting: PlaceGuard = { ensure() {}, fetch: (input, init) => fetch(input, init) };
    await signInWith(honest({ [field]: url }), challenge, trusting);
    expect(local.count()).toBeGreaterThan(0);
  },
);

test("a server on this machine may name others on it, over plain http, too", () => {
  const local = new SignInPlaces(new URL("http://127.0.0.1:3000/mcp"));
  local.ensure(new URL("http://127.0.0.1:4000/token"));
  local.ensure(new URL("https://login.example/token"));
  expect(() => local.ensure(new URL("http://login.example/token"))).toThrow("is not https:");
});

test("the origins that the user trusts, and the server's own, may be on a private network", () => {
  const places = new SignInPlaces(new URL("https://10.0.0.8/mcp"), ["https://10.0.0.7"]);
  places.ensure(new URL("https://10.0.0.8/token"));
  places.ensure(new URL("https://10.0.0.7/token"));
  expect(() => places.ensure(new URL("https://10.0.0.9/token"))).toThrow(
    "not an address of the public",
  );
});
