// Completion in the shells themselves, as far as this machine has them.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { completionScript, type Shell, shells } from "../src/terminal/completion.ts";
import { commandLine } from "../src/commands/program.ts";
import { runHere } from "./run-here.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-completion-"));
afterAll(() => rmSync(folder, { recursive: true }));

function run(shell: Shell, args: readonly string[]): string | undefined {
  try {
    return execFileSync(shell, args, { cwd: folder, encoding: "utf8", stdio: "pipe" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

const scriptOf = (shell: Shell): string => {
  const path = join(folder, `${shell}.script`);
  writeFileSync(path, completionScript(shell, commandLine(new AbortController().signal)));
  return path;
};

/** The words that a shell offers for the last of a line; `undefined` if it is not here. */
function offered(shell: Shell, line: string): readonly string[] | undefined {
  const script = scriptOf(shell);
  if (shell === "fish") {
    const code = `source ${script}; complete -C ${JSON.stringify(line)}`;
    return wordsIn(run("fish", ["--no-config", "-c", code])?.replaceAll(/\t.*/g, ""));
  }
  const words = line.split(" ");
  const set = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}`;
  const ask = `${set}; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;
  if (shell === "bash") return wordsIn(run("bash", ["-c", `source ${script}; ${ask}`]));
  // as zsh runs functions that were written for bash
  const zsh = `autoload -Uz compinit; compinit -u -D; source ${script}; emulate sh; setopt ksharrays; ${ask}`;
  return wordsIn(run("zsh", ["-f", "-c", zsh]));
}

function wordsIn(text: string | undefined): readonly string[] | undefined {
  return text?.split("\n").filter((word) => word !== "");
}

const rows: readonly (readonly [string, readonly string[], readonly string[]])[] = [
  ["sluice ", ["serve", "get", "sync", "keys", "completion"], ["new"]],
  ["sluice g", ["get"], ["serve"]],
  ["sluice keys ", ["new", "rotate"], ["get"]],
  ["sluice install cl", ["claude-desktop", "claude-code"], ["codex"]],
  ["sluice get --lim", ["--limit-rate"], ["--json"]],
  ["sluice sync http://127.0.0.1:1/mcp docs/ --de", ["--delete"], ["--dry-run"]],
  ["sluice ls --cac", ["--cacert"], ["--cert"]],
];

test.each(
  shells.flatMap((shell) => rows.map(([line, yes, no]) => [shell, line, yes, no] as const)),
)("%s completes %j", (shell, line, yes, no) => {
  const words = offered(shell, line);
  if (!words) return console.info(`no ${shell} here: its completion is not tried`);
  expect(words).toEqual(expect.arrayContaining([...yes]));
  // zsh itself leaves out words that begin otherwise
  const wrong = shell === "zsh" ? [] : no.filter((word) => words.includes(word));
  expect(wrong).toEqual([]);
});

test.each(["bash", "fish"] as const)("%s offers no option where a file belongs", (shell) => {
  writeFileSync(join(folder, "ca.pem"), "");
  const words = offered(shell, "sluice ls --cacert c");
  if (!words) return console.info(`no ${shell} here: its completion is not tried`);
  // bash itself completes files where the function gives nothing
  expect(words).toEqual(shell === "bash" ? [] : ["ca.pem"]);
});

test("every option of every command is in the script of every shell", async () => {
  for (const shell of shells) {
    const { status, stdout } = await runHere(["completion", shell]);
    expect(status).toBe(0);
    for (const command of commandLine(new AbortController().signal).commands)
      for (const { long } of command.options)
        expect(stdout).toContain(shell === "fish" ? `-l ${long!.slice(2)}` : long);
  }
  const wrong = await runHere(["completion", "tcsh"]);
  expect(wrong.stderr).toMatch(/^sluice: .*Allowed choices are bash, zsh, fish.*\n$/);
});
