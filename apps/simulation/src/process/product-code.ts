import { createRequire } from "node:module";
import { compileFunction } from "node:vm";
import { bundleLibraries, bundleProduct } from "./bundle.ts";
import type { Edit } from "./edits.ts";

export type Product = typeof import("../product.ts");

/** Globals that a process has its own of; all others are those of this program. */
const ownGlobals = [
  "globalThis",
  "Date",
  "performance",
  "setTimeout",
  "clearTimeout",
  "setInterval",
  "clearInterval",
  "setImmediate",
  "clearImmediate",
  "crypto",
  "Math",
  "AbortSignal",
  "fetch",
  "process",
  "console",
] as const;

/** The globals of one process, by name. */
export type Globals = Readonly<Record<(typeof ownGlobals)[number], unknown>>;

/** Code of the product, ready to run in any number of processes. */
export interface ProductCode {
  /** Evaluates it with the globals and modules of a process. */
  evaluate(globals: Globals, require: (specifier: string) => unknown): Product;
}

type Body = (require: unknown, module: unknown, exports: unknown, ...globals: unknown[]) => void;

/** Globals of the process whose event is happening, for code of others. */
let current: Globals | undefined;

/** Says whose event is happening. */
export function enterProcess(globals: Globals): void {
  current = globals;
}

/** Bundles and compiles the product with some edits. Large libraries are evaluated once, for all processes of all bundles. */
export async function loadProduct(edits: readonly Edit[]): Promise<ProductCode> {
  const { code, libraries } = await bundleProduct(edits);
  const others = await librariesOf(libraries);
  const body = compile(code, "product.cjs");
  return {
    evaluate(globals, require) {
      const find = (specifier: string): unknown =>
        Object.hasOwn(others, specifier) ? others[specifier] : require(specifier);
      return run(body, globals, find) as Product;
    },
  };
}

let loadedLibraries:
  | { readonly names: string; readonly exports: Record<string, unknown> }
  | undefined;

async function librariesOf(
  libraries: ReadonlyMap<string, string>,
): Promise<Record<string, unknown>> {
  const names = [...libraries.keys()].toSorted().join(" ");
  if (loadedLibraries?.names !== names) {
    const body = compile(await bundleLibraries(libraries), "libraries.cjs");
    const exports = run(body, sharedGlobals(), createRequire(import.meta.url));
    loadedLibraries = { names, exports: exports as Record<string, unknown> };
  }
  return loadedLibraries.exports;
}

function compile(code: string, filename: string): Body {
  // a scope of its own: modules may have constants with the names of globals
  return compileFunction(
    `"use strict"; {${code}\n}`,
    ["require", "module", "exports", ...ownGlobals],
    {
      filename,
    },
  ) as Body;
}

function run(body: Body, globals: Globals, require: unknown): unknown {
  const module = { exports: {} };
  body(require, module, module.exports, ...ownGlobals.map((name) => globals[name]));
  return module.exports;
}

/** Globals of code that all processes share: each use is of the process whose event is happening. */
function sharedGlobals(): Globals {
  const call =
    (name: keyof Globals) =>
    (...args: unknown[]): unknown =>
      (current![name] as (...given: unknown[]) => unknown)(...args);
  const object = (name: keyof Globals, fallback: object): object =>
    new Proxy(fallback, {
      get(own, member) {
        const holder: unknown = current?.[name] ?? own;
        const value: unknown = Reflect.get(holder as object, member);
        return typeof value === "function" ? value.bind(holder) : value;
      },
    });
  const date = new Proxy(Date, {
    construct: (_own, args) => Reflect.construct((current?.Date ?? Date) as DateConstructor, args),
    get: (own, member) => Reflect.get((current?.Date ?? own) as DateConstructor, member),
  });
  const globals = {
    Date: date,
    performance: object("performance", performance),
    setTimeout: call("setTimeout"),
    clearTimeout: call("clearTimeout"),
    setInterval: call("setInterval"),
    clearInterval: call("clearInterval"),
    setImmediate: call("setImmediate"),
    clearImmediate: call("clearImmediate"),
    crypto: object("crypto", crypto),
    Math,
    AbortSignal,
    fetch: call("fetch"),
    process,
    console,
  };
  return completeGlobals(globals);
}

/** Globals with the object that holds them. */
export function completeGlobals(globals: Omit<Globals, "globalThis">): Globals {
  const holder = Object.create(globalThis) as object;
  for (const [name, value] of Object.entries({ ...globals, globalThis: holder }))
    Object.defineProperty(holder, name, { value, writable: true, configurable: true });
  return { ...globals, globalThis: holder };
}
