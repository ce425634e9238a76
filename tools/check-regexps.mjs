// Fails when a regular expression of the packages takes more than linear time for some text: checks every
// literal, and every `RegExp` that is made of constants of its file, with recheck (decision 027).
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { check } from "recheck";
import { parseSync } from "vite";
import { isMain } from "./is-main.mjs";

/**
 * The expressions in a source: `{ line, pattern, flags }`, or `{ line, unread }` for a `RegExp` whose pattern
 * cannot be told from its file.
 */
export function expressionsIn(file, text) {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  const constants = new Map();
  const found = [];
  visit(program, (node) => {
    if (node.type === "VariableDeclaration" && node.kind === "const")
      for (const { id, init } of node.declarations)
        if (id.type === "Identifier") constants.set(id.name, init);
  });
  visit(program, (node) => {
    const line = () => text.slice(0, node.start).split("\n").length;
    if (node.type === "Literal" && node.regex) found.push({ line: line(), ...node.regex });
    if (node.type !== "NewExpression" && node.type !== "CallExpression") return;
    if (node.callee.type !== "Identifier" || node.callee.name !== "RegExp") return;
    const [source, flags] = node.arguments.map((argument) => textOf(argument, constants));
    const isRead = source !== undefined && (flags !== undefined || node.arguments.length === 1);
    if (isRead) found.push({ line: line(), pattern: source, flags: flags ?? "" });
    else found.push({ line: line(), unread: text.slice(node.start, node.end) });
  });
  return found;
}

/** The same for every run: no step of it ends by the clock. */
const settings = {
  randomSeed: 1,
  timeout: null,
  attackTimeout: null,
  incubationTimeout: null,
  seedingTimeout: null,
};

/** One sentence for each expression of a source that is not linear, with a text that shows it. */
export async function checkSource(file, text) {
  const findings = [];
  for (const { line, pattern, flags, unread } of expressionsIn(file, text)) {
    const at = `${file}:${line}: `;
    if (unread !== undefined) {
      findings.push(`${at}${unread} cannot be read; write a literal, or constants of this file`);
      continue;
    }
    const result = await check(pattern, flags, settings);
    if (result.status === "vulnerable") {
      const { complexity, attack } = result;
      findings.push(`${at}/${pattern}/${flags} is ${complexity.summary}: ${attack.pattern}`);
    } else if (result.status !== "safe") {
      findings.push(`${at}/${pattern}/${flags} could not be judged: ${result.error.kind}`);
    }
  }
  return findings;
}

/** The value of an expression of literals and constants; `undefined` for any other. */
function textOf(node, constants) {
  const of = (inner) => textOf(inner, constants);
  switch (node?.type) {
    case "Literal":
      return typeof node.value === "string" ? node.value : undefined;
    case "Identifier":
      return of(constants.get(node.name));
    case "TemplateLiteral":
      return template(node, "cooked", of);
    case "TaggedTemplateExpression": {
      const { object, property } = node.tag;
      const isRaw = object?.name === "String" && property?.name === "raw";
      return isRaw ? template(node.quasi, "raw", of) : undefined;
    }
    case "BinaryExpression":
      return node.operator === "+" ? joined([of(node.left), of(node.right)], "") : undefined;
    case "CallExpression": {
      const list = node.callee.type === "MemberExpression" ? node.callee.object : undefined;
      const isJoin = list?.type === "ArrayExpression" && node.callee.property.name === "join";
      return isJoin ? joined(list.elements.map(of), of(node.arguments[0])) : undefined;
    }
    default:
      return undefined;
  }
}

function joined(texts, separator) {
  return texts.includes(undefined) ? undefined : texts.join(separator);
}

function template({ quasis, expressions }, kind, of) {
  const values = expressions.map(of);
  if (values.includes(undefined)) return undefined;
  return quasis.map(({ value }, at) => value[kind] + (values[at] ?? "")).join("");
}

function visit(node, see) {
  if (typeof node !== "object" || node === null) return;
  if (typeof node.type === "string") see(node);
  for (const inner of Object.values(node)) visit(inner, see);
}

/** Sources of the packages, and of the page that the package of uploads sends. */
function sources(root) {
  return readdirSync(join(root, "packages")).flatMap((name) =>
    ["src", "page"].flatMap((folder) => {
      const path = join("packages", name, folder);
      try {
        return readdirSync(join(root, path), { recursive: true })
          .filter((file) => /\.m?ts$/.test(file))
          .map((file) => join(path, file));
      } catch (error) {
        if (error.code === "ENOENT") return [];
        throw error;
      }
    }),
  );
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const findings = [];
  let count = 0;
  for (const file of sources(root)) {
    const text = readFileSync(join(root, file), "utf8");
    count += expressionsIn(file, text).length;
    findings.push(...(await checkSource(file, text)));
  }
  for (const finding of findings) console.error(finding);
  if (findings.length > 0) process.exit(1);
  console.log(`regular expressions: ${count}, each linear in its text`);
}
