import { readdirSync, readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { hostileTexts } from "./parsers/hostile-texts.ts";
import { parsers } from "./parsers/table.ts";

const packages = new URL("../packages/", import.meta.url);
const count = process.env["SLUICE_DEEP"] ? 4_000 : 20;
/** A text of 16 KiB that costs more is read at four times the length, too. */
const suspiciousMs = 5;
/** More than a text of 64 KiB costs any of the parsers, by far: a reader that looks at each pair of characters takes seconds. */
const mostMs = 100;

/** Names of the functions that parse, by package, as the sources export them. */
function parsersIn(folder: URL): string[] {
  return readdirSync(folder).flatMap((name) => {
    // not the whole package: a walk goes through the links of node_modules
    const source = new URL(`${name}/src/`, folder);
    return readdirSync(source, { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts"))
      .flatMap((path) => {
        const text = readFileSync(new URL(path, source), "utf8");
        return Array.from(
          text.matchAll(/^export (?:async )?(?:function|const) (parse[A-Z]\w*)/gm),
          ([, parser]) => `${name} ${parser}`,
        );
      });
  });
}

/**
 * CPU of one reading in milliseconds: the best of up to ten until it is little enough, for others use the
 * processor, too.
 */
async function cpuMs(
  read: (text: string) => unknown,
  text: string,
  enoughMs: number,
): Promise<number> {
  let best = Infinity;
  // a reader that takes seconds need not take them ten times
  for (let run = 0; run < 10 && best >= enoughMs && (run === 0 || best < 1_000); run += 1) {
    const before = process.cpuUsage();
    try {
      await read(text);
    } catch {
      // a refusal is an answer
    }
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / 1_000);
  }
  return best;
}

test("every exported parser of the packages is in the table of those that are tried with hostile text", () => {
  const found = parsersIn(packages);
  expect(found.length).toBeGreaterThan(20);
  expect(found.filter((name) => !(name in parsers))).toEqual([]);
});

test.each(Object.entries(parsers))(
  "the CPU that hostile text costs %s grows with its length, not with the square of it",
  async (_, parser) => {
    for (const { text, longer } of hostileTexts(parser, count, 1)) {
      const ms = await cpuMs(parser.read, text, suspiciousMs);
      if (ms < suspiciousMs) continue;
      const longerMs = await cpuMs(parser.read, longer(), mostMs);
      // a slow machine takes long, but four times as long, and never a second
      const limitMs = Math.min(1_000, Math.max(mostMs, 8 * ms));
      expect(longerMs, `of ${JSON.stringify(text.slice(0, 60))}…`).toBeLessThan(limitMs);
    }
  },
);

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";

test.each([
  [
    "Link",
    "core parseLinks",
    String.raw`/<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)\s*(?:,|$)/g`,
  ],
  [
    "Content-Disposition",
    "core parseContentDisposition",
    String.raw`/^${token}(?:[\t ]*;[\t ]*(?:(${token})[\t ]*=[\t ]*(?:(${token})|"((?:[^"\\]|\\.)*)"))?[\t ]*(?=;|$))*/s`,
  ],
])(
  "the texts catch an expression for %s that can take a character in two ways",
  (_, name, expression) => {
    const isSlow = (text: string): boolean => {
      try {
        // it would not come back by itself
        runInNewContext(`${expression}.exec(text)`, { text }, { timeout: 100 });
        return false;
      } catch {
        return true;
      }
    };
    expect([...hostileTexts(parsers[name]!, 0, 1)].some(({ text }) => isSlow(text))).toBe(true);
  },
);
