// @module-tag slow
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { expect, inject, test } from "vitest";

const here = fileURLToPath(new URL(".", import.meta.url));
const source = (name: string): string =>
  readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8");

/** Whether a bundler looks into it: at what is not ours it need not. */
const isOurs = (id: string): boolean => /^(?:[./]|@?sluice(?:\/|$))/.test(id);

/** What a bundler takes for some code: packages of ours and their files, and the names that it exports. */
async function bundle(
  code: string,
  condition = "module",
): Promise<Readonly<Record<"packages" | "files" | "names", readonly string[]>>> {
  const entry = `${here}entry`;
  const packages = new Set<string>();
  const files = new Set<string>();
  const names: string[] = [];
  await build({
    root: here,
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", condition] },
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id.endsWith("/entry") ? entry : undefined),
        load: (id) => (id === entry ? code : undefined),
        generateBundle(_, chunks) {
          for (const chunk of Object.values(chunks)) {
            if (chunk.type === "chunk" && chunk.isEntry) names.push(...chunk.exports);
            for (const id of chunk.type === "chunk" ? chunk.moduleIds : []) {
              const [, name, file] = /\/packages\/([\w-]+)\/src\/(.+)/.exec(id) ?? [];
              if (file !== undefined) files.add(`${name}/${file}`);
              if (name !== undefined && name !== "sluice") packages.add(name);
            }
          }
        },
      },
    ],
    build: {
      write: false,
      minify: false,
      lib: { entry, formats: ["es"] },
      rolldownOptions: { external: (id) => !isOurs(id) },
    },
  });
  return { packages: [...packages].toSorted(), files: [...files], names };
}

const packagesOf = async (code: string) => (await bundle(code)).packages;

test("sluice/client takes nothing of the server", async () => {
  expect(await packagesOf(`export * from "sluice/client"`)).toEqual(["client", "core"]);
});

test("a bundle of one name has what that name needs, and no more", async () => {
  const one = await packagesOf(`export { createSluice } from "sluice"`);
  expect(one).toEqual(["core", "server", "state", "storage"]);
  const all = await packagesOf(`export * from "sluice"`);
  expect(all).toEqual(expect.arrayContaining([...one, "transport-http", "uploads"]));
});

test("sluice/client is the client with saving in Node, and the portable one in Deno", async () => {
  const names = Object.keys(await import("sluice/client")).toSorted();
  const clientNames = Object.keys(await import("@sluice/client"));
  expect(names).toEqual([...clientNames, "connect"].toSorted());
  const entry = `export * from "sluice/client"`;
  const [node, deno] = [await bundle(entry, "node"), await bundle(entry, "deno")];
  for (const { names: bundled } of [node, deno]) expect(bundled.toSorted()).toEqual(names);
  expect(node.files).toContain("client/save/save-opened.ts");
  expect(deno.files).toContain("client/download/stream-resource.ts");
  expect(deno.files).not.toContain("client/save/save-opened.ts");
});

test("a page that connects with a client of its own gets nothing of connect", async () => {
  const { files } = await bundle(`export { createStreaming } from "sluice/client"`, "browser");
  expect(files).not.toContain("client/connect/connect-client.ts");
});

test("an entry has nothing but names of other packages", () => {
  const isReexport = (code: string): boolean =>
    code
      .replaceAll(/^\/\/.*$/gm, "")
      .replaceAll(/^export (?:\*|\{[^}]*\}) from "@sluice\/[\w/-]+";$/gm, "")
      .trim() === "";
  const files = readdirSync(new URL("../src", import.meta.url));
  const entries = files.filter((name) => name !== "main.ts");
  expect(entries.toSorted()).toEqual(["client.ts", "index.ts", "node.ts"]);
  for (const name of entries) expect([name, isReexport(source(name))]).toEqual([name, true]);
  expect(isReexport(`${source("node.ts")}export const port = 2532;\n`)).toBe(false);
});

test("its program is the command of @sluice/cli", () => {
  const run = (program: string): string =>
    execFileSync(process.execPath, [inject("programs")[program]!, "help"], { encoding: "utf8" });
  expect(run("packages/sluice/src/main.ts")).toBe(run("packages/cli/src/main.ts"));
});
