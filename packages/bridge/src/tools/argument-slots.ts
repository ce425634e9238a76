import { SluiceError } from "@sluice/core";
import { FILE_KEYWORD } from "@sluice/core/internal";
import { membersOf, type Members } from "../messages/messages.ts";

/** Steps from the arguments of a call to one value: names of members, and places in arrays. */
export type ArgumentPath = readonly (string | number)[];

/** A place in a tool's arguments that takes a string, such as `files[0].content`. */
export interface ArgumentSlot {
  /** Each array in it is taken at 0. */
  readonly path: ArgumentPath;
  /** The path as a call writes it. */
  readonly name: string;
  /** The schema of the place, and those that it offers. */
  readonly schemas: readonly Members[];
}

const maxSteps = 5;
/** A schema may refer to itself, and offer much: no more of it is looked at. */
const maxPlaces = 2_000;
const maxAlternatives = 50;

/** The places of a tool's input schema that take a string, in its order. */
export function slotsOf(inputSchema: unknown): readonly ArgumentSlot[] {
  const slots: ArgumentSlot[] = [];
  let places = 0;
  function collect(value: unknown, path: ArgumentPath): void {
    if (places++ >= maxPlaces) return;
    const schemas = schemasOf(value, inputSchema);
    if (path.length > 0 && schemas.some((schema) => takesString(schema) || takesFile(schema)))
      slots.push({ path, name: nameOf(path), schemas });
    if (path.length >= maxSteps) return;
    for (const { items } of schemas) if (items !== undefined) collect(items, [...path, 0]);
    for (const { properties } of schemas)
      for (const [name, property] of Object.entries(membersOf(properties)))
        collect(property, [...path, name]);
  }
  collect(inputSchema, []);
  return slots;
}

/** A fixed set of values has no place for a file. */
function takesString({ type, enum: values, const: value }: Members): boolean {
  return [type].flat().includes("string") && values === undefined && value === undefined;
}

function takesFile(schema: Members): boolean {
  return takesUri(schema) || takesBase64(schema);
}

/** The schema of a URI of a file that the server got (SEP-2631). */
export function takesUri(schema: Members): boolean {
  return FILE_KEYWORD in schema;
}

/** A schema that declares base64. */
export function takesBase64({ contentEncoding, format }: Members): boolean {
  return contentEncoding === "base64" || format === "byte" || format === "base64";
}

/**
 * A schema, what it refers to, and what it offers: an optional argument in Python is `anyOf` with null, and an object there
 * is a `$ref`.
 */
function schemasOf(value: unknown, root: unknown): readonly Members[] {
  const schemas = new Set<unknown>([value]);
  // a set goes on with what is added to it
  for (const each of schemas) {
    const { $ref, anyOf, oneOf } = membersOf(each);
    const target = typeof $ref === "string" && $ref.startsWith("#/") ? [pointed(root, $ref)] : [];
    for (const inner of [target, anyOf, oneOf].filter((list) => Array.isArray(list)).flat())
      if (schemas.size < maxAlternatives) schemas.add(inner);
  }
  return [...schemas].map(membersOf);
}

/** The value at a JSON pointer of a fragment (RFC 6901). */
function pointed(root: unknown, reference: string): unknown {
  const steps = reference.slice(2).split("/");
  return steps.reduce(
    (node, step) => membersOf(node)[step.replaceAll("~1", "/").replaceAll("~0", "~")],
    root,
  );
}

function nameOf(path: ArgumentPath): string {
  return path.reduce<string>(
    (name, step) =>
      typeof step === "number" ? `${name}[${step}]` : name === "" ? step : `${name}.${step}`,
    "",
  );
}

/** Where a call puts a value: one of the slots, and the path with the places that the call names. */
export interface FoundSlot {
  readonly slot: ArgumentSlot;
  readonly path: ArgumentPath;
}

/**
 * The slot that a call means by `files[0].content`; `files` alone means the next place in an array of strings. Undefined if
 * there is none.
 */
export function findSlot(
  slots: readonly ArgumentSlot[],
  written: string,
  args: Members,
): FoundSlot | undefined {
  // names may have any characters
  const exact = slots.find(({ name }) => name === written);
  if (exact) return { slot: exact, path: exact.path };
  const places = [...written.matchAll(/\[(\d{1,4})\]/g)].map(([, place]) => Number(place));
  const pattern = written.replaceAll(/\[\d{1,4}\]/g, "[0]");
  const slot = slots.find(({ name }) => name === pattern);
  if (slot) {
    let next = 0;
    return {
      slot,
      path: slot.path.map((step) => (typeof step === "number" ? (places[next++] ?? 0) : step)),
    };
  }
  const ofList = slots.find(({ name }) => name === `${written}[0]`);
  if (!ofList) return undefined;
  const path = ofList.path.slice(0, -1);
  const list = valueAt(args, path);
  return { slot: ofList, path: [...path, Array.isArray(list) ? list.length : 0] };
}

/** The value at a path; undefined if there is none. */
export function valueAt(args: Members, path: ArgumentPath): unknown {
  return path.reduce<unknown>(
    (node, step) =>
      typeof step === "number"
        ? Array.isArray(node)
          ? node[step]
          : undefined
        : membersOf(node)[step],
    args,
  );
}

/** The arguments with `value` at a path. Throws `invalid_argument` for a place behind the next one of an array. */
export function withValueAt(args: unknown, path: ArgumentPath, value: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (typeof step === "string") {
    const members = membersOf(args);
    const inner = Object.hasOwn(members, step) ? members[step] : undefined;
    return { ...members, [step]: withValueAt(inner, rest, value) };
  }
  const list: readonly unknown[] = Array.isArray(args) ? args : [];
  if (step > list.length)
    throw new SluiceError(
      "invalid_argument",
      `bridge: argument names place ${step} of an array that has ${list.length} in arguments; write [${list.length}]`,
    );
  return list.toSpliced(step, 1, withValueAt(list[step], rest, value));
}
