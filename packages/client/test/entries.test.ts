import { spawnSync } from "node:child_process";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { describe, expect, test } from "vitest";

const here = fileURLToPath(new URL(".", import.meta.url));

/** The file that Node loads for a specifier, where these conditions are set beside its own. */
function resolve(specifier: string, conditions: readonly string[]): string {
  const { stdout } = spawnSync(
    process.execPath,
    [
      ...["@sluice/source", ...conditions].map((condition) => `--conditions=${condition}`),
      "--input-type=module",
      "--eval",
      `console.log(import.meta.resolve(${JSON.stringify(specifier)}))`,
    ],
    { cwd: here, encoding: "utf8" },
  );
  return basename(stdout.trim());
}

/** What a bundler makes of an entry, for these conditions. */
async function bundle(specifier: string, conditions: string[]): Promise<string> {
  const entry = `${here}entry`;
  const built = await build({
    root: here,
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", ...conditions] },
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id.endsWith("/entry") ? entry : undefined),
        load: (id) => (id === entry ? `export * from "${specifier}"` : undefined),
      },
    ],
    build: { write: false, minify: false, lib: { entry, formats: ["es"] } },
  });
  const [{ output }] = [built].flat() as unknown as [{ output: { code: string }[] }];
  return output[0]!.code;
}

// the flag of files that are opened, which a bundler leaves as it is
const nodeCode = /node:(?:dns|fs|https?|net)\b|O_NOFOLLOW/;

describe.each([
  ["@sluice/client", "index"],
  ["@sluice/client/uploads", "uploads"],
  ["@sluice/client/files", "files"],
])("%s", (specifier, name) => {
  test("is the Node code in Node, and the portable code in Deno", () => {
    expect(resolve(specifier, [])).toBe(`${name}-node.ts`);
    expect(resolve(specifier, ["deno"])).toBe(`${name}.ts`);
  });

  test.each([[["module", "browser"]], [["workerd", "worker", "browser"]], [["module"]]])(
    "is free of Node's modules under the conditions %j of a bundler",
    async (conditions) => {
      expect(await bundle(specifier, conditions)).not.toMatch(nodeCode);
    },
  );

  test("the twin: with the condition node a bundle has them", async () => {
    expect(await bundle(specifier, ["node"])).toMatch(nodeCode);
  });

  test("has every portable name in Node, too", async () => {
    const portable = Object.keys(await import(`../src/${name}.ts`));
    const node = Object.keys(await import(`../src/${name}-node.ts`));
    expect(portable.length).toBeGreaterThan(0);
    expect(node).toEqual(expect.arrayContaining(portable));
  });
});
