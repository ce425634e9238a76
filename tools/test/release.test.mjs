import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { packageManifest } from "../pack.mjs";
import {
  canaryVersion,
  changelogSection,
  commonVersion,
  kindOf,
  nextVersion,
  plannedFiles,
  tarballOf,
  withSection,
  withVersion,
} from "../release-plan.mjs";
import { commandsOf, installedNames, loader, publicEntries } from "../smoke-install.mjs";

const home = "https://github.com/a/b";
const change = (type, summary = "Adds x.", names = ["@sluice/core"]) => ({
  id: "blue-fox",
  summary,
  commit: "abc1234",
  releases: names.map((name) => ({ name, type })),
});

test.each([
  ["0.0.0", "minor", "0.1.0"],
  ["0.1.0", "patch", "0.1.1"],
  ["0.1.9", "minor", "0.2.0"],
  ["0.9.3", "major", "1.0.0"],
  ["1.2.3", "patch", "1.2.4"],
])("the version after %s, for a %s change, is %s", (version, kind, next) => {
  expect(nextVersion(version, kind)).toBe(next);
});

test("a version that was never released has no next one", () => {
  expect(() => nextVersion("0.1.0-canary.1", "patch")).toThrow("N.N.N");
});

test("the greatest of all changes counts", () => {
  expect(kindOf([change("patch"), change("minor"), change("patch")])).toBe("minor");
  expect(kindOf([change("none")])).toBeUndefined();
  expect(kindOf([])).toBeUndefined();
});

test("all packages of this repository get one version, also those with peers of their own", () => {
  const paths = readdirSync("packages").map((name) => `packages/${name}/package.json`);
  const files = Object.fromEntries(paths.map((path) => [path, readFileSync(path, "utf8")]));
  const from = commonVersion(readdirSync("packages").map(packageManifest));
  const to = nextVersion(from, "minor");
  const options = { files, from, to, date: "2026-11-27", home, packages: paths.length };
  const planned = plannedFiles({ ...options, changesets: [change("minor")] });
  const versions = paths.map((path) => JSON.parse(planned[path]).version);
  expect(versions).toEqual(paths.map(() => to));
  // twin: a package that is on another version is found, and not released with it
  expect(() => commonVersion([{ version: "1.0.0" }, { version: from }])).toThrow(
    "several versions",
  );
});

test("a release consumes its changesets, and its section stands before older ones", () => {
  const options = { files: {}, from: "0.1.0", to: "0.2.0", date: "2026-11-27", home, packages: 2 };
  const changelog = "# Changelog\n\n## 0.1.0\n";
  const planned = plannedFiles({ ...options, changelog, changesets: [change("minor")] });
  expect(planned).toHaveProperty(".changeset/blue-fox.md", undefined);
  expect(planned["CHANGELOG.md"]).toBe(
    `# Changelog\n\n## [0.2.0](${home}/releases/tag/v0.2.0) (2026-11-27)\n\n### Minor changes\n\n- **core**: Adds x. ([abc1234](${home}/commit/abc1234))\n\n## 0.1.0\n`,
  );
  expect(withSection(undefined, "## 0.1.0\n")).toBe("# Changelog\n\n## 0.1.0\n");
});

test("a change of all packages names none, and one of many paragraphs stays as it is", () => {
  const all = change("minor", "The first.\n\n- **Servers** stream.", ["@sluice/core", "sluice"]);
  const changesets = [all, change("patch", "Fixes y.", ["sluice"])];
  const options = { version: "0.1.0", date: "2026-11-27", home, packages: 2 };
  const section = changelogSection({ ...options, changesets });
  expect(section).toContain("### Minor changes\n\nThe first.\n\n- **Servers** stream.\n\n");
  expect(section).toContain("### Patch changes\n\n- **sluice**: Fixes y. ([abc1234]");
});

test("versions and ranges of ours follow, others stay", () => {
  const manifest = {
    version: "0.1.0",
    dependencies: { "@sluice/storage": "^0.1.0", zod: "^0.1.0" },
  };
  expect(JSON.parse(withVersion(JSON.stringify(manifest, undefined, 1), "0.1.0", "0.2.0"))).toEqual(
    {
      version: "0.2.0",
      dependencies: { "@sluice/storage": "^0.2.0", zod: "^0.1.0" },
    },
  );
});

test("canaries sort by their time, below the release, whatever the commit's digits", () => {
  const early = canaryVersion("0.2.0", new Date("2026-11-27T09:08:07.654Z"), "0123456789");
  expect(early).toBe("0.2.0-canary.20261127090807.g0123456");
});

test.each([
  ["sluice@0.1.0", "sluice-0.1.0.tgz"],
  ["@sluice/storage-s3@0.1.0-canary.1.gabc", "sluice-storage-s3-0.1.0-canary.1.gabc.tgz"],
])("%s is packed as %s", (id, file) => {
  expect(tarballOf(id)).toBe(file);
});

const manifests = [
  {
    name: "sluice",
    version: "1.0.0",
    bin: { sluice: "./dist/main.js" },
    exports: { ".": {}, "./client": {}, "./internal/run": {}, "./package.json": "./package.json" },
    peerDependencies: { "@sluice/core": "1.0.0", zod: "^4" },
  },
  { name: "@sluice/core", version: "1.0.0", exports: { ".": {}, "./internal": {} } },
];

test("every package is installed with its peers, and every public entry and command is tried", () => {
  expect(installedNames(manifests)).toEqual(["sluice@1.0.0", "@sluice/core@1.0.0", "zod@^4"]);
  const entries = manifests.flatMap(publicEntries);
  expect(entries).toEqual(["sluice", "sluice/client", "@sluice/core"]);
  expect(loader(entries)).toContain('import * as e2 from "@sluice/core";');
  expect(commandsOf(manifests)).toEqual([{ name: "sluice", version: "1.0.0" }]);
});
