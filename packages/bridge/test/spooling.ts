import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SpooledStrings } from "@sluice/bridge";
import { openSpoolFolder, type SpoolFolder } from "@sluice/bridge/internal";
import { createJsonSpooler, type JsonSpoolerOptions } from "../src/spool/json-spooler.ts";

/** A spool folder for one test, and what it has. */
export interface Bench extends AsyncDisposable {
  readonly root: string;
  readonly folder: SpoolFolder;
  readonly spooled: SpooledStrings;
  /** Names of all files, also of those without an end. */
  names(): string[];
}

export async function openBench(maxBytes = 2 ** 30, maxAgeMs = 3_600_000): Promise<Bench> {
  const root = mkdtempSync(join(tmpdir(), "sluice-spool-"));
  const folder = await openSpoolFolder({ folder: root, maxBytes, maxAgeMs });
  return {
    root,
    folder,
    spooled: new Map(),
    names: () => readdirSync(folder.path),
    async [Symbol.asyncDispose]() {
      await folder.close();
      rmSync(root, { recursive: true });
    },
  };
}

export type Limits = Partial<Omit<JsonSpoolerOptions, "target" | "spooled">>;

/** Spools chunks and gives the text that goes on. */
export async function spool(
  { folder, spooled }: Bench,
  chunks: readonly (Uint8Array | string)[],
  limits: Limits = {},
): Promise<string> {
  const spooler = createJsonSpooler({
    target: folder,
    spooled,
    inlineBytes: 100,
    maxBytes: 2 ** 20,
    framing: "document",
    ...limits,
  });
  const given: Uint8Array[] = [];
  for (const chunk of chunks) given.push(...(await spooler.write(Buffer.from(chunk))));
  given.push(...(await spooler.end()));
  return Buffer.concat(given).toString();
}

/** Pieces of a text, cut at these places. */
export function cutAt(text: string | Uint8Array, places: readonly number[]): Uint8Array[] {
  const bytes = Buffer.from(text);
  const cuts = [0, ...places.toSorted((a, b) => a - b), bytes.length];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}

/** Each byte of a text by itself. */
export function bytesOf(text: string): Uint8Array[] {
  return Array.from(Buffer.from(text), (byte) => Uint8Array.of(byte));
}

/** An answer with this result. */
export function answer(result: unknown, id: number | string = 1): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

/** Puts the strings back from their files: what the message was, where nothing is lost. */
export function restore(value: unknown, spooled: SpooledStrings): unknown {
  if (typeof value === "string") {
    const file = spooled.get(value);
    return file ? readFileSync(file.place, file.coding === "text" ? "utf8" : "base64") : value;
  }
  if (Array.isArray(value)) return value.map((inner) => restore(inner, spooled));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, restore(inner, spooled)]),
  );
}
