// Several users of `sluice serve`: each with a token, scopes and folders of its own.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { connect } from "../src/server-calls/connect.ts";
import { accessBy, tokenIssuer, type UserTable } from "../src/serve/user-rights.ts";
import { createUsers } from "../src/serve/users.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { listenHere, runHere } from "./run-here.ts";
import type { Run, Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const names = ["alice", "bob", "carol", "dora"] as const;
type Name = (typeof names)[number];
const tokenOf = (name: Name): string => `token-of-${name}`;
const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex");

const table = {
  tokens: [
    { name: "alice", scopes: ["list", "read"], folders: ["files://a/"] },
    { name: "bob", scopes: ["list", "read", "upload"] },
    { name: "carol", scopes: ["list"] },
    { name: "dora", scopes: ["read"], folders: ["files://a/deep/"] },
  ].map((user) => ({ ...user, sha256: digestOf(tokenOf(user.name as Name)) })),
};
let root = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-users-"));
  await mkdir(join(root, "a", "deep"), { recursive: true });
  await mkdir(join(root, "a", "deeper"));
  await mkdir(join(root, "b"));
  await mkdir(join(root, "saved"));
  await writeFile(join(root, "a", "deep", "d.txt"), "deep");
  await writeFile(join(root, "a", "deeper", "e.txt"), "deeper");
  await writeFile(join(root, "b", "b.txt"), "text of b");
  const config = {
    mounts: [
      { uri: "files://a/", storage: "a" },
      { uri: "files://b/", storage: "b" },
    ],
    listen: { port: 0 },
    ws: true,
    audit: false,
    uploads: { folder: "inbox" },
    saveTo: { folder: "saved" },
    users: table,
  };
  await writeFile(join(root, "sluice.json"), JSON.stringify(config));
  const env = { XDG_STATE_HOME: join(root, "state") };
  served = await listenHere(["serve", "--config", join(root, "sluice.json")], { env });
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** Runs a command as a user. */
function as(name: Name | undefined, [command = "", ...args]: readonly string[]): Promise<Run> {
  const env = {
    XDG_STATE_HOME: join(root, "state"),
    ...(name ? { SLUICE_TOKEN: tokenOf(name) } : {}),
  };
  return runHere([command, served.url, ...args], { env, cwd: root });
}

const deep = "files://a/deep/d.txt";
const deeper = "files://a/deeper/e.txt";
const other = "files://b/b.txt";

test.each([
  ["alice", `${deep}\n${deeper}\n`],
  ["bob", `${deep}\n${deeper}\n${other}\n`],
  ["carol", `${deep}\n${deeper}\n${other}\n`],
  ["dora", ""],
] as const)("%s sees only what its folders and scopes let it list", async (name, listed) => {
  expect((await as(name, ["ls"])).stdout).toBe(listed);
});

const { ok, notFound, denied } = exitCodes;
test.each([
  ["alice", deep, ok],
  ["alice", other, notFound],
  ["bob", other, ok],
  ["carol", deep, denied],
  ["dora", deep, ok],
  ["dora", deeper, notFound],
] as const)("%s reads %s only below its folders and with the scope", async (name, uri, exit) => {
  for (const command of [
    ["cat", uri],
    ["get", uri, "-o", "-"],
  ]) {
    const { status, stdout } = await as(name, command);
    expect([command[0], status]).toEqual([command[0], exit.status]);
    expect(stdout !== "").toBe(exit === ok);
  }
});

test("a WebSocket has the rights of the token that opened it", async () => {
  const url = served.url.replace(/^http/, "ws");
  const env = { SLUICE_TOKEN: tokenOf("alice") };
  expect((await runHere(["ls", url], { env })).stdout).toBe(`${deep}\n${deeper}\n`);
  expect((await runHere(["ls", url], { env: { SLUICE_TOKEN: "wrong" } })).status).toBe(
    denied.status,
  );
});

test("a token of nobody, none, and a digest in its place are refused", async () => {
  const url = served.url;
  for (const token of ["wrong", "", digestOf(tokenOf("bob"))]) {
    const { status } = await runHere(["ls", url], { env: { SLUICE_TOKEN: token } });
    expect(status).toBe(denied.status);
  }
  expect((await fetch(new URL("/", url))).status).toBe(404);
});

/** The result of a user's call, as text. */
async function callAs(name: Name, tool: string, input: Record<string, unknown>) {
  const { signal } = new AbortController();
  const { client } = await connect(served.url, { token: tokenOf(name), signal });
  try {
    const called = await client.callTool({ name: tool, arguments: input }).catch(String);
    return { text: JSON.stringify(called) };
  } finally {
    await client.close();
  }
}

test("only a user with the scope sends files", async () => {
  await writeFile(join(root, "note.txt"), "a note");
  expect((await as("bob", ["put", "note.txt"])).status).toBe(0);
  expect(await readFile(join(root, "inbox", "note.txt"), "utf8")).toBe("a note");
  const { status } = await as("alice", ["put", "note.txt", "--name", "other.txt"]);
  expect(status).not.toBe(0);
  expect(await readdir(join(root, "inbox"))).not.toContain("other.txt");
});

test("a model of a user without the scope neither sends nor saves, and one with it does both", async () => {
  const input = { uri: deep, path: "copy.txt" };
  expect((await callAs("alice", "save_to", input)).text).toContain("isError");
  expect(await readdir(join(root, "saved"))).toEqual([]);
  expect((await callAs("bob", "save_to", input)).text).not.toContain("isError");
  expect(await readdir(join(root, "saved"))).toEqual(["copy.txt"]);
  expect((await callAs("alice", "save_file", {})).text).toContain("may not send files");
  expect((await callAs("bob", "save_file", {})).text).toContain("upload_id");
});

test("only a user with the scope gets a URL for bytes", async () => {
  const authorize = async (name: Name): Promise<string> => {
    const { signal } = new AbortController();
    const { client } = await connect(served.url, { token: tokenOf(name), signal });
    try {
      const params = { name: "x.txt", size: 1 };
      const call = client.request({ method: "files/authorizeUpload", params }, z.looseObject({}));
      return JSON.stringify(await call.catch(String));
    } finally {
      await client.close();
    }
  };
  expect(await authorize("alice")).toContain("may not send files");
  expect(await authorize("bob")).toContain('"url":"http:');
});

test("a link works without the token, and nobody gets one to a file of other folders", async () => {
  const { text } = await callAs("alice", "get_download_link", { uri: deep });
  const [url = ""] = /http:[^"\\ ]+\/d\/[^"\\ ]+/.exec(text) ?? [];
  expect(await (await fetch(url)).text()).toBe("deep");
  expect((await callAs("alice", "get_download_link", { uri: other })).text).not.toContain("/d/");
});

const rules: UserTable = table as UserTable;
const principalOf = (subject: string, issuer = tokenIssuer) => ({ issuer, subject, clientId: "" });

test("a rule goes by whole folders, and hides what is outside of them from every action", () => {
  const access = accessBy(rules);
  for (const action of ["list", "read", "subscribe", "stream"] as const) {
    expect(access(principalOf("alice"), deep, action)).toBe("allow");
    expect(access(principalOf("alice"), other, action)).toBe("hide");
    // a folder whose name begins alike
    expect(access(principalOf("dora"), deeper, action)).toBe("hide");
    expect(access(principalOf("nobody"), deep, action)).toBe("hide");
    expect(access(undefined, deep, action)).toBe("hide");
    // a name from another issuer is another user
    expect(access(principalOf("bob", "https://id.example.com"), deep, action)).toBe("hide");
  }
});

test("a user that is not in the table has neither token, nor files, nor links made before", async () => {
  const before = createUsers(rules);
  const authInfo = (await before.verify(tokenOf("bob")))!;
  const principal = before.principalOf({ authInfo });
  expect(before.access(principal, deep, "stream")).toBe("allow");
  expect(before.mayUpload(principal)).toBe(true);
  const after = createUsers({ tokens: rules.tokens?.filter(({ name }) => name !== "bob") });
  expect(await after.verify(tokenOf("bob"))).toBeUndefined();
  expect(after.access(principal, deep, "stream")).toBe("hide");
  expect(after.mayUpload(principal)).toBe(false);
  expect(await after.verify(tokenOf("alice"))).toMatchObject({ clientId: "alice" });
});

test("the line of the guide makes a token and its digest", async () => {
  const page = await readFile(
    new URL("../../../docs/guides/deploy/service.md", import.meta.url),
    "utf8",
  );
  const [, line = ""] = /```sh\n(token=.*)\n/.exec(page) ?? [];
  const output = execFileSync("sh", ["-c", line], { encoding: "utf8" });
  const [, token = "", digest = ""] = /^token: (\S{43,})\n([0-9a-f]{64})/.exec(output) ?? [];
  expect(digestOf(token)).toBe(digest);
});
