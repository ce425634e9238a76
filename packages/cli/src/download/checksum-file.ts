import { readFile } from "node:fs/promises";
import { fileNameFromUri } from "@sluice/core/internal";
import { fault } from "../terminal/failure.ts";
import type { ChosenResource } from "./choose-resources.ts";

/** Gives the SHA-256 in lower-case hex that a resource must have; throws if there is none. */
export type ExpectedDigest = (resource: ChosenResource) => string;

/**
 * Reads a file of digests as `sha256sum` writes it, plain or with `--tag`. Names are paths below the output folder, or the last
 * parts of URIs. Throws `invalid_argument` for a file without a digest.
 */
export async function readChecksums(path: string): Promise<ExpectedDigest> {
  const text = await readFile(path, "utf8").catch(() => {
    throw fault("invalid_argument", `${path} cannot be read`, "name a file of digests");
  });
  const digests = parseChecksums(text);
  if (digests.size === 0)
    throw fault("invalid_argument", `${path} has no SHA-256`, "make it with sha256sum");
  return ({ uri, path: treePath }) => {
    const name = treePath ?? fileNameFromUri(uri) ?? uri;
    const digest = digests.get(name);
    if (digest !== undefined) return digest;
    throw fault(
      "invalid_argument",
      `${path} has no SHA-256 of ${name}`,
      "add it, or get the others",
    );
  };
}

/** Digests by name. A name with special characters is escaped, and its line begins with a backslash. */
export function parseChecksums(text: string): ReadonlyMap<string, string> {
  const digests = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const [, escape, plain, plainName] = /^(\\?)([0-9a-f]{64}) [ *](.+)$/i.exec(line) ?? [];
    const [, taggedName, tagged] = /^SHA256 \((.+)\) = ([0-9a-f]{64})$/i.exec(line) ?? [];
    const [digest, name] = [plain ?? tagged, plainName ?? taggedName];
    if (digest === undefined || name === undefined) continue;
    const whole = escape ? name.replaceAll(/\\([\\nr])/g, unescaped) : name;
    digests.set(whole.replace(/^\.\//, ""), digest.toLowerCase());
  }
  return digests;
}

/** What `sha256sum` writes as two characters. */
function unescaped(_escape: string, character: string): string {
  return { n: "\n", r: "\r" }[character] ?? character;
}
