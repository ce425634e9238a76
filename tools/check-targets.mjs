// Fails when a program of ours parses the target of a request by itself: `new URL("//", base)` throws, and an
// exception in a listener ends its process. `readTarget` of core reads any target and never throws.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";
import { isMain } from "./is-main.mjs";

/** What throws for a target that a client may send. */
const throwing = new Set(["URL", "Request", "decodeURI", "decodeURIComponent"]);
/** What requests are called. */
const request = /^(?:req|request|incoming|message)$/;

/** The calls in a source that parse a raw target: `{ line, call }`. */
export function targetsParsedIn(file, text) {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  // a web `Request` has an absolute URL, which the platform has parsed before
  const isOfNode = /from "node:https?"/.test(text);
  const raw = new Set();
  const found = [];
  visit(program, (node) => {
    if (node.type === "VariableDeclarator") noteNames(node, raw);
    if (node.type === "ArrowFunctionExpression" || node.type.startsWith("Function"))
      for (const parameter of node.params ?? [])
        if (isOfNode) noteNames({ id: parameter, init: { type: "Identifier", name: "req" } }, raw);
  });
  visit(program, (node) => {
    if (node.type !== "NewExpression" && node.type !== "CallExpression") return;
    const { callee, arguments: given } = node;
    if (!throwing.has(callee.name) || !holdsTarget(given[0], raw)) return;
    if (!isOfNode && (callee.name === "Request" || given.length === 1)) return;
    const line = text.slice(0, node.start).split("\n").length;
    found.push({ line, call: text.slice(node.start, node.end) });
  });
  return found;
}

/** Notes constants that hold a target: of `const target = req.url ?? ""` and `const { url } = req`. */
function noteNames({ id, init }, raw) {
  if (id.type === "Identifier" && holdsTarget(init, raw)) raw.add(id.name);
  if (id.type !== "ObjectPattern" || init?.type !== "Identifier" || !request.test(init.name))
    return;
  for (const { key, value } of id.properties)
    if (key?.name === "url" || key?.name === "originalUrl")
      raw.add(value.type === "AssignmentPattern" ? value.left.name : value.name);
}

function holdsTarget(node, raw) {
  switch (node?.type) {
    case "Identifier":
      return raw.has(node.name);
    case "MemberExpression": {
      const isUrl = node.property.name === "url" || node.property.name === "originalUrl";
      return isUrl && request.test(node.object.name ?? node.object.property?.name ?? "");
    }
    case "LogicalExpression":
      return holdsTarget(node.left, raw) || holdsTarget(node.right, raw);
    case "TSNonNullExpression":
    case "TSAsExpression":
    case "ChainExpression":
      return holdsTarget(node.expression, raw);
    case "TemplateLiteral":
      return node.expressions.some((inner) => holdsTarget(inner, raw));
    case "BinaryExpression":
      return holdsTarget(node.left, raw) || holdsTarget(node.right, raw);
    default:
      return false;
  }
}

function visit(node, see) {
  if (typeof node !== "object" || node === null) return;
  if (typeof node.type === "string") see(node);
  for (const inner of Object.values(node)) visit(inner, see);
}

/** Programs of the repository; servers of tests end with their test. */
function sources(root) {
  const folders = ["packages", "apps", "templates"]
    .flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name, "src")))
    .filter((folder) => existsSync(join(root, folder)));
  return [...folders, "e2e/graph-emulator/src", "tools"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .filter((file) => /\.m?ts$|\.mjs$/.test(file) && !file.startsWith("test/"))
      .map((file) => join(folder, file)),
  );
}

if (isMain(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const files = sources(root);
  const findings = files.flatMap((file) =>
    targetsParsedIn(file, readFileSync(join(root, file), "utf8")).map(
      ({ line, call }) => `${file}:${line}: ${call} can throw; read the target with readTarget`,
    ),
  );
  for (const finding of findings) console.error(finding);
  if (findings.length > 0) process.exit(1);
  console.log(`request targets: ${files.length} sources, none parses one by itself`);
}
