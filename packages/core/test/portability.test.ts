import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const source = new URL("../src/", import.meta.url);

const isForNode = (file: string): boolean =>
  /^(?:(?:internal-)?node\.ts$|(?:files|sockets)[\\/])/.test(file);

const allFiles = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) =>
  name.endsWith(".ts"),
);

test("no file but those of the entries for Node.js imports a Node.js module or needs Buffer", () => {
  const files = allFiles.filter((file) => !isForNode(file));
  expect(files.length).toBeGreaterThan(20);
  const tied = files.filter((file) =>
    /(?:from|import)\s*\(?["']node:|\bBuffer\b|\brequire\(/.test(
      // a name looked up there may be absent
      readFileSync(new URL(file, source), "utf8").replaceAll(/^.*= globalThis as \{.*$/gm, ""),
    ),
  );
  expect(tied).toEqual([]);
});

test("no other file imports one of the entries for Node.js", () => {
  const tied = allFiles.filter(
    (file) =>
      !isForNode(file) &&
      /["'][^"']*(?:\/(?:files|sockets)\/|\/node\.ts)/.test(
        readFileSync(new URL(file, source), "utf8"),
      ),
  );
  expect(tied).toEqual([]);
});

test("the package depends only on its two cryptographic libraries", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", source), "utf8")) as {
    dependencies: Record<string, string>;
  };
  expect(Object.keys(manifest.dependencies)).toEqual(["@noble/ciphers", "@noble/hashes"]);
});
