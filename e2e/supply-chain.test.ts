import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL("../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");

interface Manifest {
  readonly private?: boolean;
  readonly files?: readonly string[];
  readonly exports?: object;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}
const packages = readdirSync(new URL("packages/", root));
const manifests = packages.map((name) => JSON.parse(read(`packages/${name}/package.json`)));

/** What a package must not do when it is installed, one sentence each. */
function findings({ scripts = {}, files, exports, dependencies = {} }: Manifest): string[] {
  const hooks = ["preinstall", "install", "postinstall", "prepare", "prepublish"];
  return [
    ...hooks.filter((hook) => hook in scripts).map((hook) => `runs ${hook}`),
    ...(files === undefined ? ["publishes every file"] : []),
    ...(files?.includes("!dist/**/*.map") ? [] : ["publishes source maps"]),
    ...(exports === undefined ? ["opens every module"] : []),
    ...Object.entries(dependencies)
      .filter(([, range]) => /^(?:git|https?:|file:|link:|github:|[\w-]+\/)/.test(range))
      .map(([name]) => `takes ${name} from outside the registry`),
  ];
}

test("no package runs scripts at installation, publishes or opens more than it lists", () => {
  expect(packages.length).toBeGreaterThan(5);
  for (const manifest of manifests) expect(findings(manifest)).toEqual([]);
  const twin = { scripts: { postinstall: "node x" }, dependencies: { x: "github:a/b" } };
  expect(findings(twin)).toHaveLength(5);
});

test("young releases, lost provenance and packages from outside the registry are not installed", () => {
  const settings = read("pnpm-workspace.yaml");
  const age = /^minimumReleaseAge: (\d+)$/m.exec(settings)?.[1];
  expect(Number(age)).toBeGreaterThanOrEqual(3 * 24 * 60);
  expect(settings).toMatch(/^blockExoticSubdeps: true$/m);
  expect(settings).toMatch(/^trustPolicy: no-downgrade$/m);
  expect(settings).toMatch(/^strictDepBuilds: true$/m);
  expect(settings).toMatch(/^allowBuilds:\n(?: {2}[\w@/-]+: false\n)+/m);
});

test("every package of the lockfile has its digest, and comes from the registry", () => {
  const lockfile = read("pnpm-lock.yaml");
  const [, section = ""] = lockfile.split(/^packages:$/m);
  const entries = section.split(/^snapshots:$/m)[0]!.match(/^ {2}\S.*:\n(?: {4}.*\n)+/gm) ?? [];
  expect(entries.length).toBeGreaterThan(100);
  expect(entries.filter((entry) => !/integrity: sha512-/.test(entry))).toEqual([]);
  expect(entries.filter((entry) => /tarball:|type: git|directory:/.test(entry))).toEqual([]);
});
