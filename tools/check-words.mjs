// Fails on a habit of wording in our Markdown that a native reader stumbles over, such as "is no X" for "is not a X".
// Reads only prose: no code, no titles of tests, no generated pages.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Each habit has a name, the texts in which it is one (`prose`, `comment`, `string`, `code`), what to write in its
 * place, and the expression that finds it. "There is no X" and "there is none" are correct, and not found.
 */
export const habits = [
  {
    name: "NO_NOUN",
    texts: ["prose", "comment", "string"],
    advice: 'negate the verb: "is not a …", or use one adjective',
    found:
      /(?<![Tt]here )\b(is|are|was|were|be) no (?!longer\b|more\b|less\b|one\b|way\b|need\b|reason\b|matter\b|better\b|larger\b|different\b|until\b)[a-z]+/g,
  },
  {
    name: "IS_NONE",
    texts: ["prose", "comment", "string"],
    advice: 'use an adjective: "an invalid …"',
    found:
      /\b(that|which|one|[Ww]hat) (is|are|was|were) none\b|\bnone of ours\b|(?<![Tt]here )\b(is|are) none\b(?! of the)/g,
  },
  {
    name: "WHERE_IF",
    texts: ["prose", "comment", "string"],
    advice: 'write "if" or "when" for a condition; "where" is for places',
    found:
      /\b([Uu]ndefined|[Aa]bsent|[Ee]mpty|[Tt]hrows?|[Rr]ejects?|none|nothing)\b[^.;]{0,40}[ ,]where\b|(?:^|\. |[;:] )Where (it|one|a|an|the|its|there|no|nothing|that|this|they)\b/gm,
  },
  {
    name: "OTHER_END",
    texts: ["prose", "comment", "string"],
    advice: 'name it: "the peer", "the client", "the server"',
    found: /\bother (end|side)\b|\bone end of\b/g,
  },
  {
    name: "SO_MANY",
    texts: ["prose", "comment", "string"],
    advice: 'give the number, or "this many"',
    found: /\bso (many|much)\b(?! (that|as))/g,
  },
  {
    name: "MOST",
    texts: ["comment", "code"],
    advice: 'write "maximum" or "minimum", and max… or min… in a name',
    found: /\b(most|least)[A-Z]\w+|(?:\/\*\* |\* |^\s*)(Most|Least) (?!of\b|hosts|likely)[a-z]+/gm,
  },
  {
    name: "PARTICIPLE",
    texts: ["code"],
    advice: "add the noun: `let told` becomes `let reportedSize`",
    found:
      /^\s*(?:const|let) (told|asked|kept|given|held|taken|named|wanted|gone|said|sent|mine|own|refused|listed|filled|missed|declared|known|ending|waiting|looking|settled)\b/gm,
  },
];

/** Pages without prose of ours: histories, and what a program writes from docstrings or runs. */
const unread =
  /CHANGELOG\.md$|^\.changeset\/|^docs\/reference\/(?:options|performance|storage-matrix)\.md$/;

/** Sentences that may stay, each with its page. */
const allowed = [["docs/contributing/architecture.md", "is no error"]];

/** The paragraphs, rows and headings of a page, each as one line of text, with the line at which it begins. */
export function proseOf(markdown) {
  const text = markdown
    .replaceAll(/^```[\s\S]*?^```$/gm, (fence) => fence.replaceAll(/[^\n]/g, ""))
    .replaceAll(/\[[^\]]*\]\([^)\s]*\.test\.m?[jt]s\)/g, "")
    .replaceAll(/`[^`\n]*`/g, "`…`");
  const blocks = [];
  let open = false;
  for (const [at, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    const begins = /^(?:[-*#>|]|\d+\. )/.test(line);
    if (open && line !== "" && !begins) blocks.at(-1).text += ` ${line}`;
    else if (line !== "") blocks.push({ line: at + 1, text: line });
    open = line !== "" && !/^[#|]/.test(line);
  }
  return blocks;
}

/** The habits in a text of one kind: `{ name, advice, words }`. */
export function habitsIn(kind, text) {
  return habits
    .filter(({ texts }) => texts.includes(kind))
    .flatMap(({ name, advice, found }) =>
      [...text.matchAll(found)].map(([words]) => ({ name, advice, words: words.trim() })),
    );
}

/** One sentence for each habit in a page. */
export function checkWords(file, markdown, except = []) {
  return proseOf(markdown).flatMap(({ line, text }) =>
    habitsIn("prose", text)
      .filter(({ words }) => !except.some(([page, part]) => page === file && words.includes(part)))
      .map(({ name, advice, words }) => `${file}:${line}: "${words}" (${name}): ${advice}`),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const listed = ["ls-files", "*.md", "--cached", "--others", "--exclude-standard"];
  const pages = execFileSync("git", listed, { cwd: root, encoding: "utf8" })
    .split("\n")
    .filter((file) => file && !unread.test(file) && existsSync(join(root, file)));
  const findings = [...new Set(pages)].flatMap((file) =>
    checkWords(file, readFileSync(join(root, file), "utf8"), allowed),
  );
  findings.forEach((finding) => console.error(finding));
  if (findings.length > 0) process.exit(1);
  console.log("words: none of the habits is in our Markdown");
}
