import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { isLoopbackHost } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { exitCodes, formatExitCodes, outcomes } from "../src/terminal/exit-code.ts";
import { describeFailure, exitStatus, Stopped } from "../src/terminal/failure.ts";
import { printable, printableJson } from "../src/terminal/print.ts";
import { commandLine } from "../src/commands/program.ts";
import { formatTableRow, tableHeading } from "../src/server-calls/list-resources.ts";
import { readToken } from "../src/commands/option-values.ts";

test("a server's text cannot move the cursor, begin a line or reorder what is read", () => {
  const hostile = "a\u001b]0;title\u0007\r\n\u009b2J\u202eexe.txt\u2028z";
  // oxlint-disable-next-line no-control-regex -- finding control characters is the point
  expect(printable(hostile)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u202e]/);
  expect(printable("\u001b[31m")).toBe("\\u{1b}[31m");
  expect(printable("naïve 文件.txt")).toBe("naïve 文件.txt");
});

test("JSON is as harmless on a terminal, and still says the same", () => {
  const hostile = { name: "a\u001b]0;t\u0007\u007f\u009b2J\u202eexe\u2028\u{e0001}z" };
  const line = printableJson(hostile);
  // oxlint-disable-next-line no-control-regex -- finding control characters is the point
  expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u202e\u{e0001}]/u);
  expect(JSON.parse(line)).toEqual(hostile);
});

test("exit codes are distinct, and every one is in the table", () => {
  const statuses = Object.values(exitCodes).map(({ status }) => status);
  expect(new Set(statuses).size).toBe(statuses.length);
  for (const status of statuses)
    expect(formatExitCodes()).toMatch(new RegExp(`^ *${status}  `, "m"));
});

test("docs/reference/cli.md has the same exit codes", () => {
  const readme = readFileSync(new URL("../../../docs/reference/cli.md", import.meta.url), "utf8");
  const rows = [...readme.matchAll(/^\| +(\d+) \| (.+?) +\|$/gm)];
  expect(rows.map(([, status, meaning]) => ({ status: Number(status), meaning }))).toEqual(
    Object.values(exitCodes),
  );
});

test("docs/reference/cli.md names every command and every option", () => {
  const readme = readFileSync(new URL("../../../docs/reference/cli.md", import.meta.url), "utf8");
  const namesOf = (command: Command, path: string): string[] => [
    ...command.options.map(({ long }) => `\`${long}\``),
    ...command.commands.flatMap((inner) => {
      const name = `${path} ${inner.name()}`;
      return [name, ...namesOf(inner, name)];
    }),
  ];
  const names = namesOf(commandLine(new AbortController().signal), "sluice");
  expect(names).toContain("sluice keys rotate");
  expect(names.filter((name) => name !== "`--version`" && !readme.includes(name))).toEqual([]);
});

test("no error of ours ends as success", () => {
  for (const code of Object.keys(outcomes) as SluiceErrorCode[]) {
    const { outcome, line } = describeFailure(new SluiceError(code, `client: x: ${code}`));
    expect(exitStatus(outcome)).toBeGreaterThan(0);
    expect(line).not.toContain("\n");
  }
});

test.each([
  ["not_found", 3],
  ["unauthenticated", 4],
  ["unavailable", 5],
  ["corrupt", 6],
  ["already_exists", 7],
  ["too_large", 8],
] as const)("%s exits with %i", (code, status) => {
  expect(exitStatus(describeFailure(new SluiceError(code, "x")).outcome)).toBe(status);
});

test("a file that this machine refuses is the target's fault, not a denial by the server", () => {
  const cause = Object.assign(new Error("EACCES"), { code: "EACCES", syscall: "open" });
  const { outcome, line } = describeFailure(
    new SluiceError("permission_denied", "client: save x", { cause }),
    true,
  );
  expect(outcome).toBe("target");
  expect(line).toContain("-o");
  // the other commands have no such option
  const other = new SluiceError("permission_denied", "client: save x", { cause });
  expect(describeFailure(other).line).toMatch(/or name another place$/);
});

test("signals exit as shells expect", () => {
  expect(exitStatus(describeFailure(new Stopped("interrupted")).outcome)).toBe(130);
  expect(exitStatus(describeFailure(new Stopped("terminated")).outcome)).toBe(143);
});

test("the command's own advice takes the place of the library's", () => {
  const error = new SluiceError("too_large", 'client: "a" has 9 bytes; raise it to accept them');
  expect(describeFailure(error).line).toBe('"a" has 9 bytes; raise --max-size to take it');
});

test.each(["throttled", "unavailable", "timeout"] as const)(
  "a server that says how long it wants to be left alone is given that long: %s",
  (code) => {
    const error = new SluiceError(code, "client: x: busy; try again later", {
      retryAfterMs: 11_200,
    });
    expect(describeFailure(error).line).toBe("x: busy; wait 12 s and run the same command again");
  },
);

test("a table row lines up with its heading and ends with the URI", () => {
  const row = formatTableRow({
    uri: "files://local/node",
    name: "node",
    size: 98_932_688,
    mimeType: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    lastModified: "2026-03-24T10:20:30Z",
  });
  expect(row).toBe("94.3 MiB  2026-03-24 10:20  application/vnd.openxml…  files://local/node");
  expect(row.indexOf("files://")).toBe(tableHeading.indexOf("uri"));
  expect(formatTableRow({ uri: "a:b\n", name: "b" })).toMatch(/^ +\? .* a:b\\u\{a\}$/);
});

test.each(["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "LOCALHOST"])(
  "%s is this machine",
  (host) => expect(isLoopbackHost(host)).toBe(true),
);

test.each([
  "0.0.0.0",
  "::",
  "192.168.0.7",
  "localhost.example",
  "127.0.0.1.example",
  "::ffff:8.8.8.8",
])("%s is not this machine", (host) => expect(isLoopbackHost(host)).toBe(false));

test("a malformed token is refused without being repeated", () => {
  expect(readToken("")).toBeUndefined();
  expect(readToken("abc")).toBe("abc");
  const secret = "tok en\n";
  expect(describeFailure(thrownBy(() => readToken(secret)))).toEqual({
    outcome: "usage",
    line: "the token has invalid characters; look for spaces and line ends around it",
  });
});

function thrownBy(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}
