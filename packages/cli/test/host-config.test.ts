import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { formatHostConfig, shellText, tomlText, startCommandOf } from "../src/hosts/host-config.ts";
import type { ServeCommandOptions } from "../src/serve/serve-options.ts";
import { runHere } from "./run-here.ts";
import { runCommand, sluice } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
let files = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-config-"));
  files = join(root, "my files");
  await mkdir(files);
  await mkdir(join(root, "out"));
  await writeFile(join(files, "a.txt"), "text");
});
afterAll(() => rm(root, { recursive: true }));

const { signal } = new AbortController();
const plain: ServeCommandOptions = { host: "127.0.0.1", uri: "files://local/", signal };

/** Text of each block by the first word or two of its title. */
function blocksOf(text: string): Record<string, string> {
  const parts = text.split(/^# /m).slice(1);
  return Object.fromEntries(
    parts.map((part) => {
      const end = part.indexOf("\n");
      return [part.slice(0, end).split(":")[0]!, part.slice(end + 1).trim()];
    }),
  );
}

/** Where npx keeps what it runs. */
const cached = "/home/me/.npm/_npx/0a1b2c/node_modules/sluice/dist/main.js";

const blocks = (
  options: Partial<ServeCommandOptions> = {},
  source = "./a b",
): Record<string, string> => blocksOf(formatHostConfig(source, { ...plain, ...options }, cached));

test("a server over HTTP is its URL, but for Claude Desktop, which starts commands only", () => {
  const url = "http://127.0.0.1:2532/mcp";
  const found = blocks();
  const args = ["-y", "sluice", "serve", resolve("a b"), "--stdio"];
  expect(JSON.parse(found["Claude Desktop"]!)).toEqual({
    mcpServers: { files: { command: "npx", args } },
  });
  expect(found["Claude Code"]).toBe(`claude mcp add --transport http files ${url}`);
  expect(JSON.parse(found["VS Code"]!)).toEqual({ servers: { files: { type: "http", url } } });
  const [settings = "", link = ""] = found["Cursor"]!.split(/\n(?=cursor:)/);
  expect(JSON.parse(settings)).toEqual({ mcpServers: { files: { url } } });
  const parameters = new URL(link).searchParams;
  expect(parameters.get("name")).toBe("files");
  expect(JSON.parse(atob(parameters.get("config")!))).toEqual({ url });
  expect(found["Codex"]).toBe(`[mcp_servers.files]\nurl = "${url}"`);
});

test("with --stdio every host starts the command, with whole paths and all that was given", () => {
  const found = blocks({
    stdio: true,
    uri: "files://team/",
    uploads: "in",
    maxUpload: 5_000,
    maxStep: 2 ** 20,
    saveTo: "out",
    keys: "my.keys",
    audit: "audit.log",
    tools: false,
  });
  const paths: Record<string, string> = {
    SOURCE: resolve("a b"),
    KEYS: resolve("my.keys"),
    AUDIT: resolve("audit.log"),
    IN: resolve("in"),
    OUT: resolve("out"),
  };
  const args = [
    "-y sluice serve SOURCE --stdio --uri files://team/ --keys KEYS --audit AUDIT".split(" "),
    "--uploads IN --save-to OUT --max-upload 5000 --max-step 1048576 --no-tools".split(" "),
  ]
    .flat()
    .map((word) => paths[word] ?? word);
  const server = { command: "npx", args };
  expect(JSON.parse(found["Claude Desktop"]!).mcpServers.files).toEqual(server);
  expect(JSON.parse(found["VS Code"]!).servers.files).toEqual({ type: "stdio", ...server });
  expect(found["Claude Code"]).toMatch(
    /^claude mcp add files -- npx -y sluice serve '.*a b' --stdio/,
  );
  expect(found["Codex"]).toContain(`command = "npx"\nargs = ["-y", "sluice", "serve", "`);
});

test("a folder may have any name", () => {
  const folder = resolve("日本 'é' \"x\" & $HOME");
  const found = blocks({ stdio: true }, folder);
  expect(JSON.parse(found["Claude Desktop"]!).mcpServers.files.args).toContain(folder);
  const link = found["Cursor"]!.split("\n").at(-1)!;
  const config = Buffer.from(new URL(link).searchParams.get("config")!, "base64").toString();
  expect(JSON.parse(config).args).toContain(folder);
});

test("the token is named and never printed", () => {
  const token = "correct-horse-battery-staple";
  const text = formatHostConfig(
    ".",
    { ...plain, token, publicUrl: "https://f.example/mcp" },
    cached,
  );
  expect(text).not.toContain(token);
  const found = blocksOf(text);
  expect(found["Claude Code"]).toContain(`--header "Authorization: Bearer $SLUICE_TOKEN"`);
  expect(found["VS Code"]).toContain("Bearer ${input:sluice-token}");
  expect(JSON.parse(found["VS Code"]!).inputs).toEqual([
    expect.objectContaining({ id: "sluice-token", password: true }),
  ]);
  expect(found["Cursor"]).toContain("Bearer ${env:SLUICE_TOKEN}");
  expect(found["Codex"]).toContain(`bearer_token_env_var = "SLUICE_TOKEN"`);
});

test("a storage of a cloud stands there as its URL, with a word about its credentials", () => {
  const text = formatHostConfig(
    "s3://bucket/a?region=eu-west-1",
    { ...plain, stdio: true },
    cached,
  );
  expect(JSON.parse(blocksOf(text)["Claude Desktop"]!).mcpServers.files.args).toEqual([
    ..."-y -p sluice -p @sluice/storage-s3 sluice serve".split(" "),
    "s3://bucket/a?region=eu-west-1",
    "--stdio",
  ]);
  expect(text).toContain(`"env"`);
});

test.each([
  ["/home/me/app/node_modules/sluice/dist/main.js"],
  ["/home/me/app/node_modules/.pnpm/sluice@1.0.0/node_modules/sluice/dist/main.js"],
  ["/home/me/src/sluice/packages/sluice/dist/main.js"],
  ["C:\\Users\\me\\app\\node_modules\\sluice\\dist\\main.js"],
])("a program of a project or clone is started by its path: %s", (file) => {
  expect(startCommandOf(file)).toEqual({ command: "node", args: [file] });
  expect(startCommandOf(file, ["@sluice/storage-s3"])).toEqual({ command: "node", args: [file] });
});

test.each([
  [cached],
  ["/home/me/.cache/pnpm/dlx/0a1b/node_modules/sluice/dist/main.js"],
  ["/usr/local/lib/node_modules/sluice/dist/main.js"],
  ["/home/me/.nvm/versions/node/v24.1.0/lib/node_modules/sluice/dist/main.js"],
  ["/home/me/.local/share/pnpm/global/5/.pnpm/sluice@1.0.0/node_modules/sluice/dist/main.js"],
  ["/home/me/.config/yarn/global/node_modules/sluice/dist/main.js"],
  ["C:\\Users\\me\\AppData\\Roaming\\npm\\node_modules\\sluice\\dist\\main.js"],
  [undefined],
])("a program that npx finds from any folder is started by its name: %s", (file) => {
  expect(startCommandOf(file)).toEqual({ command: "npx", args: ["-y", "sluice"] });
});

test(
  "--print-config prints and ends, and the command that it prints starts the server",
  { tags: "slow" },
  async () => {
    const options = ["--stdio", "--save-to", join(root, "out"), "--print-config"];
    const { status, stdout } = await sluice(["serve", files, ...options]);
    expect(status).toBe(0);
    const { command, args } = JSON.parse(blocksOf(stdout)["Claude Desktop"]!).mcpServers.files;
    const client = new Client({ name: "test", version: "1" });
    // hosts start it in a folder of their own
    await client.connect(new StdioClientTransport({ command, args, cwd: root, stderr: "ignore" }));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain("save_to");
    await client.close();
  },
);

test("sluice bridge --print-config has whole paths and no token, and writes nothing", async () => {
  const saved = join(root, "saved");
  const words = ["https://mcp.acme.com/mcp", "--save-to", saved, "--token", "correct-horse"];
  const { status, stdout } = await runHere(["bridge", ...words, "--print-config"]);
  expect([status, stdout.includes("correct-horse")]).toEqual([0, false]);
  const found = blocksOf(stdout);
  const { args } = JSON.parse(found["Claude Desktop"]!).mcpServers.files;
  expect(args.slice(-4)).toEqual(["bridge", "--save-to", saved, "https://mcp.acme.com/mcp"]);
  expect(Object.keys(found)).toEqual([
    "Claude Desktop",
    "Claude Code",
    "VS Code",
    "Cursor",
    "Codex",
  ]);
  expect(existsSync(saved)).toBe(false);
  const http = await runHere(["bridge", "https://mcp.acme.com/mcp", "--http", "--print-config"]);
  expect([http.status, http.stdout]).toEqual([2, ""]);
});

test("settings for a port that is another one each time are a usage error", async () => {
  const { status, stdout, stderr } = await runHere([
    "serve",
    files,
    "--port",
    "0",
    "--print-config",
  ]);
  expect([status, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^sluice: .*port 0.*--stdio\n$/);
});

test("the words of the line for Claude Code are what a shell reads", async () => {
  const words = ["plain", "a b", "it's", `"$HOME"`, "a\\b", "*", "", "-x", "é"];
  const { stdout } = await runCommand([
    "sh",
    "-c",
    `printf "%s\\n" ${words.map(shellText).join(" ")}`,
  ]);
  expect(stdout.split("\n")).toEqual([...words, ""]);
});

test.each([
  ["C:\\Users\\me", '"C:\\\\Users\\\\me"'],
  ['a"b', '"a\\"b"'],
  ["a\u007fb", '"a\\u007fb"'],
])("%j is a basic string of TOML", (given, written) => {
  expect(tomlText(given)).toBe(written);
});
