// @module-tag slow
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { afterAll, expect, test } from "vitest";
import { bundle, ensureInstalled } from "../bundle.mjs";

const folder = mkdtempSync(join(tmpdir(), "sluice-bundle-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Bytes that an application has of a package when it imports one name of it. */
async function sizeOf(name, file) {
  const bundled = await rolldown({
    input: "entry",
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === "entry" ? id : undefined),
        load: (id) => (id === "entry" ? `export { ${name} } from ${JSON.stringify(file)}` : null),
      },
    ],
    external: (id) => /^[^./\0]/.test(id) && id !== "entry",
  });
  const { output } = await bundled.generate({ minify: true });
  return output[0].code.length;
}

test("an application has only its imports of a built package; the negative control, without marks, has more", async () => {
  await bundle("core", undefined, join(folder, "marked"));
  await bundle("core", [], join(folder, "bare"));
  expect(await sizeOf("progressBytes", join(folder, "marked", "internal.js"))).toBeLessThan(1_000);
  expect(await sizeOf("progressBytes", join(folder, "bare", "internal.js"))).toBeGreaterThan(1_500);
});

test("an entry is one file beside what entries share, with maps to the sources", () => {
  const built = join(folder, "marked");
  const maps = readdirSync(built, { recursive: true }).filter((name) => name.endsWith(".js.map"));
  const sourcesOf = (map) => JSON.parse(readFileSync(join(built, map), "utf8")).sources;
  const sources = maps.filter((map) => !map.startsWith("modules")).flatMap(sourcesOf);
  expect(sources.filter((source) => source.endsWith("/src/errors/error.ts"))).toHaveLength(1);
  expect(readFileSync(join(built, "index.js"), "utf8")).not.toMatch(/from "\.\/(?!shared\/)/);
});

test("the library for SHA-256 is in the files for other runtimes, not in those for Node.js", () => {
  const built = join(folder, "marked");
  const codesOf = (isPart) =>
    readdirSync(built, { recursive: true })
      .filter((name) => name.endsWith(".js") && name.startsWith("modules") === isPart)
      .map((name) => readFileSync(join(built, name), "utf8"))
      .join("");
  expect(codesOf(false)).not.toContain("@noble/hashes");
  expect(codesOf(true)).toContain("@noble/hashes");
});

test("an import of a package that the manifest does not name fails the build", () => {
  const manifest = { name: "@sluice/here", dependencies: { "@some/library": "^1.0.0" } };
  const check = (...imports) =>
    ensureInstalled([{ fileName: "shared/part.js" }, { fileName: "index.js", imports }], manifest);
  check("shared/part.js", "node:fs", "@some/library/part");
  expect(() => check("@some/other/part")).toThrow("@sluice/here: imports @some/other/part");
});
