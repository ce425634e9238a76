import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ServeSettings } from "../bed/programs/serve.ts";
import { startProgram, type Program } from "../bed/program.ts";
import { call } from "../bed/raw.ts";
import { createRandom } from "../bed/random.ts";

const names = process.env["SLUICE_DEEP"] === undefined ? 1_000 : 10_000;
const perRequest = 10;
const content = "the secret plans";
const uri = "files://site/a.txt";
const random = createRandom(47);

/** What objects inherit, and what looks it up by name. */
const inherited = Object.getOwnPropertyNames(Object.prototype);
/** RFC 9110 §5.6.2 `token`; and a few characters that no name may have. */
const legal = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const illegal = ' "(),/;<=>?@[]{}\\\u007f\u00e9\0';

let server: Program<{ url: string }>;
beforeAll(async () => {
  const settings: ServeSettings = { files: { "a.txt": content } };
  server = await startProgram("serve", settings);
});
afterAll(() => server[Symbol.asyncDispose]());

function randomName(): string {
  const letters = random.int(0, 8) === 0 ? legal + illegal : legal;
  let name = "";
  for (let length = random.int(1, 24); length > 0; length--)
    name += letters[random.int(0, letters.length)];
  return random.int(0, 8) === 0 ? `__${name}__` : name;
}

/** One request as it is; gives what came back. */
function send(lines: readonly string[]): Promise<string> {
  const { port } = new URL(server.hello.url);
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect(Number(port), "127.0.0.1", () =>
      socket.end(`${lines.join("\r\n")}\r\n\r\n`, "latin1"),
    );
    socket.setTimeout(5_000, () => socket.destroy());
    socket.setEncoding("latin1").on("data", (chunk: string) => void (answer += chunk));
    socket.on("error", () => {}).on("close", () => resolve(answer));
  });
}

/** On every route, and more than once, so that Node joins the values or makes a list of them. */
async function sendNames(chosen: readonly string[], downloadPath: string): Promise<void> {
  const { pathname, host } = new URL(server.hello.url);
  const [method, path] = random.pick([
    ["GET", downloadPath],
    ["HEAD", downloadPath],
    ["OPTIONS", downloadPath],
    ["GET", `${pathname}/streams/x`],
    ["POST", pathname],
  ] as const);
  const headers = chosen.flatMap((name) => [`${name}: a`, `${name}: b`]);
  const answer = await send([
    `${method} ${path} HTTP/1.1`,
    `Host: ${host}`,
    "Connection: close",
    ...headers,
  ]);
  expect(answer).not.toMatch(/^HTTP\/1\.1 5/);
}

test(
  `${names} random header names, and all that objects inherit, end no process`,
  { tags: "slow" },
  async () => {
    const { url } = server.hello;
    const { message } = await call(
      url,
      "resources/stream",
      { uri },
      { streaming: { prefer: ["downloadUrl"] } },
    );
    const { pathname } = new URL(String(message?.result?.["downloadUrl"]));

    for (const name of [...inherited, "prototype"])
      for (let times = 0; times < 5; times++) await sendNames([name], pathname);

    let left = names / perRequest;
    const worker = async (): Promise<void> => {
      while (left-- > 0) await sendNames(Array.from({ length: perRequest }, randomName), pathname);
    };
    await Promise.all(Array.from({ length: 8 }, worker));

    expect(inherited).toEqual(expect.arrayContaining(["__proto__", "constructor"]));
    expect(await server.ask<string[]>("faults")).toEqual([]);
    const answer = await call(url, "resources/stream", { uri }, { streaming: {} });
    expect(answer.bytes.toString()).toBe(content);
  },
);
