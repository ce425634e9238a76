import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
let trail = "";
let whole = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  trail = join(root, "audit.log");
  await writeFile(join(root, "a.bin"), "0123456789");
  const served = await serveHere(root, ["--audit", trail]);
  const get = (name: string) =>
    runHere(["get", served.url, `files://local/${name}`, "-o", join(root, `${name}.copy`)]);
  await get("a.bin");
  await get("gone.bin");
  await served.end();
  whole = await readFile(trail, "utf8");
});
afterAll(() => rm(root, { recursive: true }));

const verify = (...args: string[]) => runHere(["audit", "verify", ...args]);

test("serve --audit keeps a record of everything, readable to its owner only", async () => {
  const records = whole
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(records).toMatchObject(
    expect.arrayContaining([
      expect.objectContaining({ event: "opened", seq: 1 }),
      expect.objectContaining({ action: "stream", outcome: "issued", uri: "files://local/a.bin" }),
      expect.objectContaining({ action: "download", outcome: "begun" }),
      expect.objectContaining({ action: "download", outcome: "complete", bytes: 10 }),
      expect.objectContaining({ action: "stream", outcome: "denied", reason: "not_found" }),
    ]),
  );
  expect(records.map(({ seq }) => seq)).toEqual(records.map((_, n) => n + 1));
  expect((await stat(trail)).mode & 0o777).toBe(0o600);
});

test("without --audit serve keeps a trail for its address where the user's state is, and says so", async () => {
  const state = await mkdtemp(join(root, "state-"));
  const env = { XDG_STATE_HOME: state };
  const run = async (...args: string[]) => {
    const served = await serveHere(root, args, { env });
    await runHere(["ls", served.url]);
    return { url: served.url, ...(await served.end()) };
  };
  const { url, stderr } = await run();
  const kept = join(state, "sluice", "audit", `127.0.0.1_${new URL(url).port}.log`);
  expect(stderr).toContain(`audit trail: ${kept}; --no-audit disables it`);
  expect((await verify(kept)).stderr).toMatch(/^\d+ lines, none changed\n$/);
  await rm(join(state, "sluice"), { recursive: true });
  expect((await run("--no-audit")).stderr).not.toContain("audit trail");
  expect(await readdir(state)).toEqual([]);
});

test("serve says what to do instead of serving unrecorded if no state can be kept", async () => {
  const env = { XDG_STATE_HOME: join(root, "a.bin") };
  const { status, stderr } = await runHere(["serve", root, "--port", "0"], { env });
  expect(status).toBe(exitCodes.usage.status);
  expect(stderr).toMatch(/^sluice: cannot write to .+ \(ENOTDIR\); .*--no-audit\n$/);
});

test("verify prints the head of a whole trail, and takes it back", async () => {
  const { status, stdout, stderr } = await verify(trail);
  expect(status).toBe(0);
  expect(stdout).toMatch(/^\d+:[0-9a-f]{64}\n$/);
  expect(stderr).toMatch(/^\d+ lines, none changed\n$/);
  expect((await verify(trail, "--head", stdout.trim())).status).toBe(0);
  const forged = stdout.trim().replace(/.$/, (last) => (last === "0" ? "1" : "0"));
  expect((await verify(trail, "--head", forged)).status).toBe(exitCodes.integrity.status);
});

test("verify says what was changed and where, and fails", async () => {
  const path = join(root, "changed.log");
  const lines = whole.trimEnd().split("\n");
  const changed = lines.with(1, lines[1]!.replace('"outcome":', '"outcome": ')).slice(0, -1);
  await writeFile(path, `${changed.join("\n")}\n`);
  await writeFile(`${path}.head`, await readFile(`${trail}.head`));
  const { status, stdout, stderr } = await verify(path);
  expect(status).toBe(exitCodes.integrity.status);
  expect(stdout).toContain(`${path}:2: altered: `);
  expect(stdout).toContain(`${path}:${lines.length - 1}: truncated: `);
  expect(stderr).toMatch(/^sluice: the audit trail was changed: 2 findings; .+\n$/);
});

test("verify fails where the end was not checked, says why, and is content with a head noted elsewhere", async () => {
  const path = join(root, "headless.log");
  await writeFile(path, whole);
  const head = (await verify(trail)).stdout.trim();
  const lines = whole.trimEnd().split("\n").length;
  for (const spoil of [
    () => Promise.resolve(),
    () => writeFile(`${path}.head`, ""),
    () => rm(`${path}.head`).then(() => symlink(`${trail}.head`, `${path}.head`)),
  ]) {
    await spoil();
    const { status, stdout, stderr } = await verify(path);
    expect(status).toBe(exitCodes.integrity.status);
    expect(stdout).toMatch(
      new RegExp(`^.+:${lines}: unchecked: the end was not checked: .+\\.head (?:is|holds) .+\n$`),
    );
    expect(stderr).toMatch(/^sluice: no line was changed, but the end was not checked: .+\n$/);
    const vouched = await verify(path, "--head", head);
    expect([vouched.status, vouched.stdout]).toEqual([0, `${head}\n`]);
  }
});

test.each([
  ["a file that is not there", ["no-such-file"]],
  ["an invalid head", ["--head", "12", "x"]],
])("%s is a usage error on one line", async (_, args) => {
  const { status, stdout, stderr } = await verify(...args);
  expect([status, stdout]).toEqual([exitCodes.usage.status, ""]);
  expect(stderr).toMatch(/^sluice: .+\n$/);
});

test("a file that is not an audit file is not written to", async () => {
  const path = join(root, "diary.txt");
  await writeFile(path, "dear diary\n");
  for (const target of [path, join(root, "none", "audit.log")]) {
    const { status, stderr } = await runHere(["serve", root, "--port", "0", "--audit", target]);
    expect(status).toBe(exitCodes.usage.status);
    expect(stderr).toMatch(/^sluice: .+name another file\n$/);
  }
  expect(await readFile(path, "utf8")).toBe("dear diary\n");
});
