import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { inject } from "vitest";

/**
 * Writes a copy of a compiled program, beside it, with one text replaced by another: the examples of the docs have fixed ports.
 * Gives the path of the copy. Rejects when the program does not have the text.
 */
export async function changeProgram(
  source: string,
  text: string,
  replacement: string,
): Promise<string> {
  const path = inject("programs")[source]!;
  const code = await readFile(path, "utf8");
  // compiled libraries stand before the lines of the program itself
  const at = code.lastIndexOf(text);
  if (at < 0) throw new Error(`${source} has no ${text}`);
  const copy = path.replace(/\.mjs$/, `-${randomUUID()}.mjs`);
  await writeFile(copy, code.slice(0, at) + replacement + code.slice(at + text.length));
  return copy;
}

/** The copy of an example whose Sluice is at another endpoint than the default one. */
export function moveExample(source: string, endpoint: string): Promise<string> {
  const text = "createSluice({";
  return changeProgram(source, text, `${text} endpoint: ${JSON.stringify(endpoint)},`);
}
