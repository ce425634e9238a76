import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import {
  findNodeAtLocation,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from "jsonc-parser";
import { definedMembers } from "@sluice/core/internal";
import { parseStorageUrl } from "../storages/storage-url.ts";
import { errnoOf, fault } from "../terminal/failure.ts";
import { printable } from "../terminal/print.ts";
import { withVariables } from "../terminal/variables.ts";
import { configSchema, type ServeConfig } from "./config-schema.ts";
import type { ServeCommandOptions } from "./serve-options.ts";

/** What a file may say of a server: the options of the command, but for what only one run has. */
export type ConfiguredOptions = Omit<
  Partial<ServeCommandOptions>,
  "signal" | "stdio" | "token" | "printConfig" | "uri"
> &
  Required<Pick<ServeCommandOptions, "mounts">>;

/**
 * Reads a configuration of `sluice serve`: JSON, with comments and commas at ends. `${NAME}` in a value is from `env`. Paths are
 * relative to the folder of the file. Throws a fault of one line that names the file, the line and the key, and says what to
 * change; it never repeats a value.
 */
export async function loadServeConfig(
  path: string,
  env: NodeJS.ProcessEnv,
): Promise<ConfiguredOptions> {
  let content: string;
  try {
    content = await readFile(path, "utf8");
  } catch (error) {
    const why = errnoOf(error) ?? "unknown error";
    throw fault("invalid_argument", `${path} cannot be read (${why})`, "name a readable file");
  }
  const folder = dirname(resolve(path));
  return optionsOf(readServeConfig(content, { name: path, env }), folder);
}

/** The values of a configuration. `name`: of the file, for messages. */
export function readServeConfig(
  content: string,
  { name, env }: { readonly name: string; readonly env: NodeJS.ProcessEnv },
): ServeConfig {
  const refuse = (offset: number, message: string): Error => {
    const line = content.slice(0, offset).split("\n").length;
    const end = message.lastIndexOf("; ");
    const what = `${name} line ${line}: ${message.slice(0, end)}`;
    return fault("invalid_argument", printable(what), printable(message.slice(end + 2)));
  };
  if (content.trim() === "") throw refuse(0, 'the file is empty; write { "mounts": [ … ] }');
  const errors: ParseError[] = [];
  const root = parseTree(content, errors, { allowTrailingComma: true, disallowComments: false });
  const [error] = errors;
  if (error || !root) {
    const what = error ? printParseErrorCode(error.error) : "no value";
    const message = `this is not JSON (${what}); correct the line, or the one before it`;
    throw refuse(error?.offset ?? 0, message);
  }
  const twice = repeatedKey(root);
  if (twice)
    throw refuse(twice.offset, `${getNodeValue(twice)} is there twice; leave one of them out`);

  const at = (path: readonly PropertyKey[]): number => offsetAt(root, path);
  const values = eachText(getNodeValue(root), [], (text, path) =>
    withVariables(text, env, (variable) =>
      refuse(
        at(path),
        `${keyOf(path)} needs the variable ${variable}, which is not set; set it, or write \${${variable}:-other}`,
      ),
    ),
  );
  const result = configSchema.safeParse(values);
  if (result.success) return result.data;
  const [first] = result.error.issues
    .map((issue) => {
      const keys = issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
      const path = [...issue.path, ...keys];
      return { offset: at(path), message: `${keyOf(path)} ${issue.message}` };
    })
    .toSorted((a, b) => a.offset - b.offset);
  throw refuse(first!.offset, first!.message);
}

/** The options that the values stand for. `folder`: of the file. */
function optionsOf(config: ServeConfig, folder: string): ConfiguredOptions {
  const {
    listen = {},
    uploads,
    saveTo,
    limits,
    origins,
    keys,
    audit,
    mounts,
    delivery,
    ...others
  } = config;
  const place = (path: string): string => resolve(folder, path);
  return {
    ...definedMembers({
      ...others,
      ...listen,
      origin: origins,
      keys: keys && place(keys),
      audit: audit && place(audit),
      uploads: uploads && place(uploads.folder),
      maxUpload: uploads?.maxFile,
      maxStep: uploads?.maxStep,
      saveTo: saveTo && place(saveTo.folder),
      maxTotal: saveTo?.maxTotal,
      limits: limits && definedMembers(limits),
    }),
    mounts: mounts.map(({ uri, storage, delivery: own = delivery }) => {
      const url = parseStorageUrl(storage);
      const source = url.kind === "file" ? place(url.root) : storage;
      return { uri, source, ...definedMembers({ delivery: own }) };
    }),
  };
}

/** The second of two keys of one name: which of them counts differs from parser to parser. */
function repeatedKey(node: Node): Node | undefined {
  const children = node.children ?? [];
  if (node.type === "object") {
    const names = new Set<unknown>();
    for (const [name] of children.map((property) => property.children ?? [])) {
      if (name && names.has(name.value)) return name;
      names.add(name?.value);
    }
  }
  for (const child of children) {
    const found = repeatedKey(child);
    if (found) return found;
  }
  return undefined;
}

/** The same value with each text in it replaced. */
function eachText(
  value: unknown,
  path: readonly PropertyKey[],
  replace: (text: string, path: readonly PropertyKey[]) => string,
): unknown {
  if (typeof value === "string") return replace(value, path);
  if (Array.isArray(value))
    return value.map((entry, index) => eachText(entry, [...path, index], replace));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([key, entry]) => [key, eachText(entry, [...path, key], replace)]),
  );
}

/** Where the key of a path begins, or the nearest object around one that is missing. */
function offsetAt(root: Node, path: readonly PropertyKey[]): number {
  for (let length = path.length; length > 0; length--) {
    const node = findNodeAtLocation(root, path.slice(0, length) as (string | number)[]);
    if (node) return (node.parent?.type === "property" ? node.parent : node).offset;
  }
  return root.offset;
}

/** `users.tokens[0].name`; of the whole file `it`. */
function keyOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "the file";
  return path
    .map((part, at) =>
      typeof part === "number" ? `[${part}]` : `${at === 0 ? "" : "."}${String(part)}`,
    )
    .join("");
}
