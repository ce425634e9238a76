// Fails on a habit of wording in our Markdown that a native reader stumbles over, such as "is no X" for "is not a X".
// Reads only prose: no code, no generated pages. Of sources, see `held`; titles are read in every test.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";
import { isMain } from "./is-main.mjs";

/**
 * Each habit has a name, the texts in which it is one (`prose`, `comment`, `string`, `code`, `title`), what to write in its
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
  {
    name: "ALSO_TOO",
    texts: ["prose"],
    advice: 'write "even", "only" or "including" before what it limits, and no ", too"',
    found:
      /[,;] also (a|an|the|in|on|after|while|by|of|from|when|where|with|behind|between|below|without|as|if|for|over|across|to)\b|, too(?=[.,;:)]|$)/g,
  },
  {
    name: "ALONE",
    texts: ["prose"],
    advice: 'write "only" before what it limits',
    found: /[a-z`)] alone\b(?! (with|in a)\b)/g,
  },
  {
    name: "PHRASAL",
    texts: ["prose"],
    advice: "use the usual verb: continue, interrupt, expire, resume; in progress",
    found:
      /\b(go|goes|went|going|gone) on\b(?! (the|a|its|disk)\b)|\b(break|breaks|broke|broken) off\b|\b(is|are|was|were) over\b(?! (HTTP|stdio|[0-9]|the|a)\b)|\b(taken?|takes?|took) (it |them )?up\b|\bunder way\b|\bmeanwhile\b|\bgives? way\b/g,
  },
  {
    name: "PERSON",
    texts: ["prose"],
    advice: "software receives, supports, reports and expires",
    found:
      /\b(hears?|heard|knows? (no|nothing)|dies?|dead|outlives?)\b|\b(is|are|was|were) told\b/g,
  },
  {
    name: "TITLE",
    texts: ["title"],
    advice: "begin with the subject or a verb",
    found:
      /^(that|whose|who|which|of|over|where|what|whatever|in|at|to|after|on|behind|under|by|from|as) /g,
  },
];

/** Pages without prose of ours: histories, and what a program writes from docstrings or runs. */
const unread =
  /CHANGELOG\.md$|^\.changeset\/|^docs\/reference\/(?:options|performance|storage-matrix)\.md$/;

/** Packages whose sources are free of the habits: comments and strings, and outside of tests also code. */
const held = [
  "archive",
  "binary-transfer",
  "bridge",
  "cli",
  "client",
  "core",
  "resume",
  "server",
  "state",
  "state-redis",
  "storage",
  "storage-azure-blob",
  "storage-files-sdk",
  "storage-fs",
  "storage-graph",
  "storage-s3",
  "transport-http",
  "transport-stdio",
  "transport-ws",
  "uploads",
].map((name) => `packages/${name}/`);

/** Sentences and names that may stay, each with its file. */
const allowed = [
  ["docs/contributing/architecture.md", "is no error"],
  ["docs/decisions/021-upload-page.md", "go on"],
  ["packages/core/src/node.ts", "minRoomBytes"],
  ["packages/core/src/sockets/socket-inlet.ts", "minRoomBytes"],
  ["packages/client/src/save/fetch-into.ts", "minRoomBytes"],
];

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

/**
 * The comments, strings of three words or more, titles of tests, and lines of code of a source:
 * `{ kind, line, text }`. A paragraph of a comment begins with a sign: "Where" after it is a place.
 */
export function textsOf(file, source) {
  const { program, comments, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  const lineAt = (at) => source.slice(0, at).split("\n").length;
  const texts = [];
  let code = source;
  const blank = ({ start, end }) => {
    const gap = source.slice(start, end).replaceAll(/[^\n]/g, " ");
    code = code.slice(0, start) + gap + code.slice(end);
  };
  let last;
  for (const comment of comments) {
    blank(comment);
    const paragraphs = comment.value.split(/\n[\s*]*\n/);
    const follows = last?.type === "Line" && comment.type === "Line";
    const isNext = follows && /^\n[ \t]*$/.test(source.slice(last.end, comment.start));
    for (const paragraph of paragraphs) {
      const text = paragraph.replaceAll(/\n[\s*]*/g, " ").replace(/^[\s*]*/, "");
      const line = lineAt(source.indexOf(paragraph, comment.start));
      if (isNext) texts.at(-1).text += ` ${text}`;
      else texts.push({ kind: "comment", line, text: `/** ${text}` });
    }
    last = comment;
  }
  visit(program, (node) => {
    const title = titleOf(node);
    if (title !== undefined) texts.push({ kind: "title", line: lineAt(node.start), text: title });
    const text = stringOf(node);
    if (text === undefined) return;
    if (node.type === "Literal") blank(node);
    if (text.split(/\s+/).length > 2)
      texts.push({ kind: "string", line: lineAt(node.start), text });
  });
  for (const [at, text] of code.split("\n").entries())
    texts.push({ kind: "code", line: at + 1, text });
  return texts;
}

/** A literal's text, with a sign for what a template fills in. */
function stringOf(node) {
  if (node?.type === "TemplateLiteral")
    return node.quasis.map(({ value }) => value.cooked).join("…");
  return typeof node?.value === "string" ? node.value : undefined;
}

/** The title of a call of `test` or `it`, also of `test.each(…)(…)`; groups name a setting, and have none. */
function titleOf(node) {
  if (node.type !== "CallExpression") return undefined;
  let callee = node;
  while (callee && callee.type !== "Identifier")
    callee = callee.object ?? callee.callee ?? callee.tag;
  return ["test", "it"].includes(callee?.name) ? stringOf(node.arguments[0]) : undefined;
}

function visit(node, look) {
  if (typeof node?.type === "string") look(node);
  for (const value of Object.values(node ?? {})) if (typeof value === "object") visit(value, look);
}

/** The habits in a text of one kind: `{ name, advice, words }`. */
export function habitsIn(kind, text) {
  return habits
    .filter(({ texts }) => texts.includes(kind))
    .flatMap(({ name, advice, found }) =>
      [...text.matchAll(found)].map(([words]) => ({ name, advice, words: words.trim() })),
    );
}

/** One sentence for each habit in a page, or in a source; `kinds` are the texts to look at, or all. */
export function checkWords(file, content, except = [], kinds) {
  const texts = file.endsWith(".md")
    ? proseOf(content).map((text) => ({ kind: "prose", ...text }))
    : textsOf(file, content).filter(({ kind }) => kind !== "code" || file.includes("/src/"));
  const read = texts.filter(({ kind }) => kinds?.includes(kind) ?? true);
  return read.flatMap(({ kind, line, text }) =>
    habitsIn(kind, text)
      .filter(({ words }) => !except.some(([page, part]) => page === file && words.includes(part)))
      .map(({ name, advice, words }) => `${file}:${line}: "${words}" (${name}): ${advice}`),
  );
}

const isHeld = (file) =>
  file.startsWith("templates/") || held.some((folder) => file.startsWith(folder));

const isTest = (file) => /\.test\.(?:ts|mjs)$/.test(file);

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const patterns = ["*.md", "*.ts", "*.mjs", "--cached", "--others", "--exclude-standard"];
  const files = execFileSync("git", ["ls-files", ...patterns], { cwd: root, encoding: "utf8" })
    .split("\n")
    .filter((file) => (file.endsWith(".md") ? !unread.test(file) : isHeld(file) || isTest(file)))
    .filter((file) => existsSync(join(root, file)));
  const findings = [...new Set(files)].flatMap((file) =>
    checkWords(
      file,
      readFileSync(join(root, file), "utf8"),
      allowed,
      file.endsWith(".md") || isHeld(file) ? undefined : ["title"],
    ),
  );
  findings.forEach((finding) => console.error(finding));
  if (findings.length > 0) process.exit(1);
  console.log("words: none of the habits is in our Markdown, sources or titles");
}
