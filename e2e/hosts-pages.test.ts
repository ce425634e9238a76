import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { formatHostConfig } from "../packages/cli/src/hosts/host-config.ts";
import { configFileOf, hostNames } from "../packages/cli/src/hosts/host-files.ts";

const folder = fileURLToPath(new URL("../docs/hosts/", import.meta.url));
const read = (name: string): string => readFileSync(`${folder}${name}.md`, "utf8");

const { signal } = new AbortController();
const plain = { host: "127.0.0.1", uri: "files://local/", signal };
/** Where npx keeps what it runs. */
const cached = "/home/me/.npm/_npx/0a1b2c/node_modules/sluice/dist/main.js";

/** What `--print-config` prints for a host, with `--stdio`, and for a server that runs with or without a token. */
const printed = [{ stdio: true }, {}, { token: "secret" }].map((options) =>
  formatHostConfig("/Users/me/Shared", { ...plain, ...options }, cached),
);

/** One spelling for each fence: JSON without its layout, TOML and shell as they are. */
function spell(text: string): string {
  const code = text.trim();
  return code.startsWith("{") ? JSON.stringify(JSON.parse(code)) : code;
}

const known = new Set(
  printed
    .flatMap((text) => text.split(/^# .*\n/m))
    .map((block) => spell(block.split(/\n(?=cursor:)/)[0]!)),
);

/** Configurations of a page that the command does not print. */
function strangeIn(page: string): readonly string[] {
  return [...page.matchAll(/^```(json|toml|sh)\n([\s\S]*?)^```$/gm)].flatMap(
    ([, language, code = ""]) => {
      const parts = language === "sh" ? code.trim().split("\n") : [code];
      return parts.map(spell).filter((part) => !known.has(part) && !isOurs(part));
    },
  );
}

/** A line for a shell that starts `sluice install`, or Goose, whose configuration the command does not print. */
function isOurs(line: string): boolean {
  const [, host] = /^npx sluice install ([\w-]+) \/Users\/me\/Shared$/.exec(line) ?? [];
  return hostNames.some((name) => name === host) || line.startsWith("goose session --with-");
}

test("the pages show the configuration that the command prints", () => {
  const names = readdirSync(folder).map((name) => name.replace(/\.md$/, ""));
  expect(names).toHaveLength(9);
  for (const name of names) expect([name, strangeIn(read(name))]).toEqual([name, []]);
});

test.each([
  ["claude-desktop", '"--stdio"'],
  ["vscode", '"http"'],
  ["codex", "bearer_token_env_var"],
  ["claude-code", "--transport"],
])("a changed configuration of %s is found", (name, part) => {
  expect(strangeIn(read(name).replace(part, '"other"'))).toHaveLength(1);
});

test.each(hostNames)("the page of %s names its file", (name) => {
  const page = read(name).replaceAll(/\s+/g, " ");
  const machine = { platform: "linux", home: "~", folder: "", env: {} } as const;
  const { path } = configFileOf(name, machine);
  expect(page).toContain(path.split("/").at(-1));
  expect(page).toContain(`npx sluice install ${name} `);
});

test("the pages are in the list, and in the comparison", () => {
  const guide = readFileSync(`${folder}../guides/hosts.md`, "utf8");
  for (const file of readdirSync(folder).filter((name) => name !== "README.md")) {
    expect(read("README")).toContain(`](${file})`);
    expect(guide).toContain(`](../hosts/${file})`);
  }
});
