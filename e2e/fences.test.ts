// @module-tag slow
// All code of the docs type-checks in projects of users. Programs do so as they stand, with the published declarations; code that
// takes names from its page does so in its file, with the settings of a bundler.
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import {
  compile,
  consumerSettings,
  openConsumerProject,
  type ConsumerProject,
} from "./bed/consumer-project.ts";
import { isProgram, programOf, readSavedScripts, readShownFiles, root } from "./bed/fences.ts";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const shown = readShownFiles();
/** Checked in its own package, by `tools/check-template.mjs`. */
const template = "templates/storage-plugin/test/example.ts";
const programs = shown.filter((file) => isProgram(file) && file.path !== template);
const fragments = shown.filter((file) => !isProgram(file));

let project: ConsumerProject;
beforeAll(async () => {
  project = await openConsumerProject();
});
afterAll(() => project[Symbol.asyncDispose]());

const { nodenext, bundler } = consumerSettings;
const code = Object.fromEntries(programs.map((file) => [file.path, programOf(file)]));

test.each([
  ["nodenext", nodenext],
  ["bundler", bundler],
])("programs of the docs compile under %s", async (_, settings) => {
  expect(programs.length).toBeGreaterThan(20);
  expect(await project.check(settings, code)).toEqual([]);
});

test("code of the docs without imports compiles under bundler", async () => {
  expect(fragments.length).toBeGreaterThan(20);
  const folder = await mkdtemp(join(root, "node_modules/.cache/fences-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const errors = await compile(folder, {
    compilerOptions: {
      ...bundler,
      customConditions: ["@sluice/source"],
      typeRoots: [join(root, "node_modules/@types")],
    },
    files: fragments.map(({ path }) => join(root, path)),
  });
  const inFences = errors.filter((error) => {
    const [, path = "", line] = /^(.+?)\((\d+),/.exec(error) ?? [];
    const file = fragments.find((each) => each.path === relative(root, join(folder, path)));
    return file?.parts.some(({ first, last }) => Number(line) >= first && Number(line) <= last);
  });
  expect(inFences).toEqual([]);
});

test("no code of the docs needs a newer Node than 20", () => {
  // `using` came with Node 24
  const newer = shown.flatMap(({ path, parts }) =>
    parts.some(({ code: part }) => /\busing \w+ =/.test(part)) ? [path] : [],
  );
  expect(newer).toEqual([]);
});

test("code that a page says to save as JavaScript is JavaScript", async () => {
  const scripts = readSavedScripts();
  expect(scripts.length).toBeGreaterThan(5);
  const folder = await mkdtemp(join(tmpdir(), "sluice-scripts-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, "script.mjs");
  const wrong: string[] = [];
  for (const { page, code: script } of scripts) {
    await writeFile(file, script);
    if (spawnSync(process.execPath, ["--check", file]).status !== 0) wrong.push(page);
  }
  expect(wrong).toEqual([]);
});

test("a wrong option in a fence is an error at its line", async () => {
  const path = "e2e/examples/upload-server.ts";
  const wrong = code[path]!.replace('scan: "none"', 'scan: "none", maxByte: 1');
  const errors = await project.check(nodenext, { [path]: wrong });
  const line = wrong.split("\n").findIndex((text) => text.includes("maxByte")) + 1;
  expect(errors).toEqual([expect.stringContaining(`${path}(${line},`)]);
});
