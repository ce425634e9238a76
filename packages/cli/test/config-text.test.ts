import { expect, test } from "vitest";
import { addServer } from "../src/hosts/config-text.ts";
import { configFileOf, hostNames, type Machine } from "../src/hosts/host-files.ts";
import { addedLines } from "../src/hosts/install-server.ts";

const value = { command: "npx", args: ["-y", "sluice", "serve", "/tmp/a b", "--stdio"] };
const entry = { key: "mcpServers", name: "files", value };
const table = { key: "mcp_servers", name: "files", value };

test.each([
  ["an absent file", ""],
  ["an empty object", "{}"],
  ["white space", " \n"],
])("%s becomes one with the server", (_, text) => {
  expect(JSON.parse(addServer("json", text, entry))).toEqual({ mcpServers: { files: value } });
});

test.each([
  ["comments", '{\n  // mine\n  "theme": "dark", /* why */\n  "mcpServers": {}\n}\n'],
  ["trailing commas", '{\n  "mcpServers": {\n    "a": { "command": "x" },\n  },\n}\n'],
  ["tabs", '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}\n'],
  ["line ends of Windows", '{\r\n  "theme": "dark"\r\n}\r\n'],
  ["an order of its own", '{"z":1,"mcpServers":{"b":{"command":"y"}},"a":2}'],
])("%s of a JSON file stay", (_, text) => {
  const after = addServer("json", text, entry);
  expect(after).toContain("/tmp/a b");
  // every word of the old text is there, in its order
  let at = 0;
  for (const word of text.match(/[\w"]+|\/[/*][^\n]*?(?:\*\/|\n|\r)/g) ?? []) {
    at = after.indexOf(word.trim(), at);
    expect(at, word).toBeGreaterThanOrEqual(0);
  }
  expect(addServer("json", after, entry)).toBe(after);
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n";
  expect(after.replaceAll(lineEnd, "")).not.toContain("\n");
});

test.each([
  ["nothing", ""],
  ["comments and other tables", '# mine\nmodel = "o5"\n\n[mcp_servers.other]\ncommand = "x"\n'],
  ["no line end at its end", "[tui]\nnotifications = true"],
])("a table is added to a TOML file with %s, which stays", (_, text) => {
  const after = addServer("toml", text, table);
  expect(after.startsWith(text)).toBe(true);
  expect(after).toContain('[mcp_servers.files]\ncommand = "npx"\nargs = [');
  expect(addServer("toml", after, table)).toBe(after);
});

test.each([
  [
    "json",
    '{ "mcpServers": { "files": { "command": "other" } } }',
    "another server is called files",
  ],
  ["json", '{ "mcpServers": [] }', "line 1"],
  ["json", "[]", "line 1"],
  ["json", '{\n "a": 1,\n "b": \n}', "line 4"],
  ["json", '{ "mcpServers": {} } trailing', "line 1"],
  ["toml", '[mcp_servers.files]\ncommand = "other"\n', "another server is called files"],
  ["toml", "a = 1\nb = \n", "line 2"],
  ["toml", 'mcp_servers = { other = { command = "x" } }\n', "cannot be read as TOML"],
] as const)("%s %j is refused and says why", (format, text, words) => {
  expect(refusalOf(() => addServer(format, text, format === "json" ? entry : table))).toContain(
    words,
  );
});

/** What the error of a call says. */
function refusalOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return String((error as Error).cause);
  }
  return "nothing was thrown";
}

const env = { APPDATA: "C:\\Users\\me\\AppData\\Roaming" };
const machine = (platform: NodeJS.Platform): Machine => ({
  platform,
  home: "/home/me",
  folder: "/project",
  env: platform === "win32" ? env : {},
});

test.each([
  [
    "claude-desktop",
    "darwin",
    "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
  ],
  ["claude-desktop", "linux", "/home/me/.config/Claude/claude_desktop_config.json"],
  ["claude-desktop", "win32", `${env.APPDATA}/Claude/claude_desktop_config.json`],
  ["claude-code", "linux", "/project/.mcp.json"],
  ["cursor", "darwin", "/home/me/.cursor/mcp.json"],
  ["vscode", "darwin", "/home/me/Library/Application Support/Code/User/mcp.json"],
  ["vscode", "linux", "/home/me/.config/Code/User/mcp.json"],
  ["vscode", "win32", `${env.APPDATA}/Code/User/mcp.json`],
  ["codex", "linux", "/home/me/.codex/config.toml"],
] as const)("%s on %s reads %s", (host, platform, path) => {
  expect(configFileOf(host, machine(platform)).path).toBe(path);
});

test("every host has a file, a key and what to do next", () => {
  for (const host of hostNames)
    expect(configFileOf(host, machine("linux"))).toMatchObject({
      title: expect.stringMatching(/./),
      key: expect.stringMatching(/^(?:mcpServers|servers|mcp_servers)$/),
      advice: expect.stringMatching(/./),
    });
});

test("only the added lines are printed, and they move no terminal", () => {
  expect(addedLines("a\nb", "a\nx\nb")).toEqual(["+ x"]);
  expect(addedLines("", "a\nb")).toEqual(["+ a", "+ b"]);
  expect(addedLines("a", "a\n\u001b[2J")).toEqual(["+ \\u{1b}[2J"]);
});

test.each([
  '{"mcpServers":{"gh":{"command":"npx","env":{"TOKEN":"ghp_secret"}}}}',
  '{\n  "mcpServers": {\n    "gh": {"command": "npx", "env": {"TOKEN": "ghp_secret"}}\n  }\n}\n',
  '{ "token": "ghp_secret" }',
])("other members of %j stay as they are, and are not printed", (text) => {
  const after = addServer("json", text, entry);
  expect(JSON.parse(after).mcpServers.files).toEqual(value);
  const added = addedLines(text, after);
  expect(added.join("\n")).toContain("/tmp/a b");
  expect(added.join("\n")).not.toContain("secret");
  let at = 0;
  for (const character of after) if (character === text[at]) at += 1;
  expect(at).toBe(text.length);
});
