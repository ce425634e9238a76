// Every line of the docs that starts `sluice` names a command, and options that this command has.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { runHere } from "../packages/cli/test/run-here.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

interface Line {
  readonly page: string;
  readonly command: string;
  readonly options: readonly string[];
}

/** The lines of a page, in fences of a shell or between backticks, that start the command. */
function linesIn(page: string, markdown: string): readonly Line[] {
  const fences = [...markdown.matchAll(/^```(?:sh|console)\n([\s\S]*?)^```$/gm)];
  const shell = fences.flatMap(([, code = ""]) => code.replaceAll("\\\n", " ").split("\n"));
  const inline = [...markdown.matchAll(/`((?:npx )?sluice [^`]+)`/g)].map(([, code = ""]) =>
    code.replaceAll(/\s+/g, " "),
  );
  return [...shell, ...inline].flatMap((line) => {
    const words = /(?:^|\s)(?:npx )?sluice ([a-z]+)\b([^#|&]*)/.exec(line);
    if (!words) return [];
    const [, command = "", rest = ""] = words;
    // what follows is of `serve` or `bridge` for `install`, and a program for `bridge`
    const [own = ""] = rest.split(/ -- | --$/);
    const options = [...own.matchAll(/(?:^|\s)(--[a-z][a-z-]*)/g)].map(([, name = ""]) => name);
    return [{ page, command, options }];
  });
}

const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((page) => page !== "" && !page.startsWith(".changeset/"));

const helps = new Map<string, string>();
async function helpOf(command: string): Promise<string> {
  const known = helps.get(command);
  if (known !== undefined) return known;
  const { stdout } = await runHere([command, "--help"]);
  // the help of the whole program is that of an unknown command
  const help = stdout.startsWith(`Usage: sluice ${command} `) ? stdout : "";
  helps.set(command, help);
  return help;
}

/** What the lines name and the command does not have. */
async function unknownIn(lines: readonly Line[]): Promise<readonly string[]> {
  const unknown: string[] = [];
  for (const { page, command, options } of lines) {
    const help = await helpOf(command);
    if (help === "") unknown.push(`${page}: sluice ${command}`);
    for (const option of options)
      if (!new RegExp(`\\s${option}\\b(?!-)`).test(help))
        unknown.push(`${page}: sluice ${command} ${option}`);
  }
  return unknown;
}

test("lines of the docs name commands and options that exist", async () => {
  const lines = pages.flatMap((page) => linesIn(page, readFileSync(`${root}/${page}`, "utf8")));
  expect(lines.length).toBeGreaterThan(100);
  expect(await unknownIn(lines)).toEqual([]);
});

test("an unknown command and an unknown option are found", async () => {
  const page =
    "```sh\nnpx sluice serve . --stdoi # ok\nnpx sluice fetch URL\n```\n`sluice get URL --jsn`\n";
  expect(await unknownIn(linesIn("x.md", page))).toEqual([
    "x.md: sluice serve --stdoi",
    "x.md: sluice fetch",
    "x.md: sluice get --jsn",
  ]);
});
