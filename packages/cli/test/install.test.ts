// `sluice install` writes into folders of its own, as a user's home would have them.
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runHere } from "./run-here.ts";

let home = "";
let shared = "";
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "sluice-home-"));
  shared = join(home, "my files");
  await mkdir(shared);
});
afterEach(() => rm(home, { recursive: true }));

const install = (...args: readonly string[]) =>
  runHere(["install", ...args], {
    cwd: home,
    env: { HOME: home, USERPROFILE: home, XDG_CONFIG_HOME: "", CODEX_HOME: "" },
  });

/** The words that follow the program in what was written. */
function wordsOf({ args }: { args: string[] }): string[] {
  return args.slice(args.indexOf("serve"));
}

test("a server is added to Cursor with its options and whole paths; the old file is kept", async () => {
  const old = '{\n  // mine\n  "mcpServers": { "other": { "command": "x" } }\n}\n';
  await mkdir(join(home, ".cursor"));
  await writeFile(join(home, ".cursor", "mcp.json"), old);
  const given = ["cursor", "my files", "--", "--uploads", "in", "--port", "4711"];
  const { status, stdout, stderr } = await install(...given);
  expect([status, stderr]).toEqual([0, expect.stringContaining("Next: ")]);
  const text = await readFile(join(home, ".cursor", "mcp.json"), "utf8");
  expect(text).toContain("// mine");
  const { mcpServers } = JSON.parse(text.replace("// mine", ""));
  expect(mcpServers.other).toEqual({ command: "x" });
  const words = ["serve", shared, "--stdio", "--port", "4711", "--uploads", join(home, "in")];
  expect(wordsOf(mcpServers.files)).toEqual(words);
  for (const line of stdout.trim().split("\n")) expect(line).toMatch(/^\+ /);
  const backups = (await readdir(join(home, ".cursor"))).filter((name) => name.endsWith(".bak"));
  expect(backups).toHaveLength(1);
  expect(await readFile(join(home, ".cursor", backups[0]!), "utf8")).toBe(old);
  // the folders of its options are not made before the host starts it
  expect(await readdir(home)).not.toContain("in");

  const again = await install(...given);
  expect([again.status, again.stdout]).toEqual([0, expect.stringContaining("already")]);
  expect(await readFile(join(home, ".cursor", "mcp.json"), "utf8")).toBe(text);

  const other = await install("cursor", "my files");
  expect([other.status === 0, other.stderr]).toEqual([false, expect.stringContaining("--name")]);
  expect((await install("cursor", "my files", "--name", "more")).status).toBe(0);
});

test("--dry-run shows the change and writes nothing", async () => {
  const { status, stdout } = await install("claude-code", "my files", "--dry-run");
  expect([status, stdout]).toEqual([0, expect.stringContaining('+       "type": "stdio"')]);
  expect(await readdir(home)).toEqual(["my files"]);
});

test("a new file is readable by its owner alone, and a link to one stays a link", async () => {
  await mkdir(join(home, ".codex"));
  await mkdir(join(home, "dotfiles"));
  const real = join(home, "dotfiles", "config.toml");
  await writeFile(real, "# mine\n", { mode: 0o644 });
  await symlink(real, join(home, ".codex", "config.toml"));
  expect((await install("codex", "my files")).status).toBe(0);
  expect(await readFile(real, "utf8")).toMatch(/^# mine\n\n\[mcp_servers\.files\]\ncommand = /);
  expect((await readdir(join(home, ".codex"), { withFileTypes: true }))[0]!.isSymbolicLink()).toBe(
    true,
  );
});

test("a link to a file that is missing stays a link, and the file is made", async () => {
  await mkdir(join(home, ".codex"));
  await mkdir(join(home, "dotfiles"));
  const real = join(home, "dotfiles", "config.toml");
  await symlink("next.toml", join(home, ".codex", "config.toml"));
  await symlink(real, join(home, ".codex", "next.toml"));
  expect((await install("codex", "my files")).status).toBe(0);
  expect(await readFile(real, "utf8")).toMatch(/^\[mcp_servers\.files\]/);
  const entries = await readdir(join(home, ".codex"), { withFileTypes: true });
  expect(entries.map((entry) => entry.isSymbolicLink())).toEqual([true, true]);
});

test.each([
  ["into a folder that is missing", "../missing/config.toml", /is a link to .*no such folder/],
  ["to itself", "config.toml", /leads to itself/],
])("a link %s stays as it is, and nothing is written", async (_, target, said) => {
  await mkdir(join(home, ".codex"));
  await symlink(target, join(home, ".codex", "config.toml"));
  const { status, stderr } = await install("codex", "my files");
  expect([status === 0, stderr]).toEqual([false, expect.stringMatching(said)]);
  expect(await readlink(join(home, ".codex", "config.toml"))).toBe(target);
});

test("a secret that would be written down is told, and one from the environment is not", async () => {
  const url = "https://mcp.example.com/mcp";
  const headers = ["Authorization: Bearer hunter2", "X-Api-Key: ${KEY}", "X-Team: files"];
  const options = headers.flatMap((line) => ["--header", line]);
  const { status, stderr } = await install("claude-code", url, "--dry-run", "--", ...options);
  expect(status).toBe(0);
  expect(stderr.match(/warning/g)).toHaveLength(1);
  expect(stderr).toContain("pass --header 'Authorization: ${NAME}'");
  expect(stderr).not.toContain("hunter2");
});

test.each([
  [["cursor", "my files"], "Cursor was not found on this machine"],
  [["emacs", "my files"], "Allowed choices are claude-desktop, claude-code"],
  [["claude-code", "no such folder"], "no such folder"],
  [["claude-code", "my files", "--name", "a b"], "Use letters"],
  [["claude-code", "my files", "--", "--ws"], "--ws has no effect with --stdio"],
])("install %j is refused, says why, and writes nothing", async (args, words) => {
  const { status, stdout, stderr } = await install(...args);
  expect([status === 0, stdout, stderr]).toEqual([false, "", expect.stringContaining(words)]);
  expect(await readdir(home)).toEqual(["my files"]);
});

test("a server at a URL is bridged, with whole paths and without the token", async () => {
  const url = "https://mcp.example.com/mcp";
  const options = [
    "--save-to",
    "out",
    "--send-from",
    "my files",
    "--header",
    "X-Team: ${TEAM}",
    "--cacert",
    "ca.pem",
    "--resolve",
    "mcp.example.com:443:[::1],10.0.0.7",
    "--no-spool",
  ];
  const { status, stdout } = await runHere(
    ["install", "claude-code", url, "--name", "acme", "--", ...options],
    { cwd: home, env: { HOME: home, SLUICE_TOKEN: "correct-horse-battery-staple" } },
  );
  expect(status).toBe(0);
  const { mcpServers } = JSON.parse(await readFile(join(home, ".mcp.json"), "utf8"));
  const { args } = mcpServers.acme;
  expect(args.slice(args.indexOf("bridge"))).toEqual([
    "bridge",
    "--header",
    "X-Team: ${TEAM}",
    "--cacert",
    join(home, "ca.pem"),
    "--resolve",
    "mcp.example.com:443:::1,10.0.0.7",
    "--save-to",
    join(home, "out"),
    "--send-from",
    shared,
    "--no-spool",
    url,
  ]);
  expect(stdout).not.toContain("battery");
  const http = await install("claude-code", url, "--name", "other", "--", "--http");
  expect([http.status === 0, http.stderr]).toEqual([
    false,
    expect.stringContaining("leave --http out"),
  ]);
});
