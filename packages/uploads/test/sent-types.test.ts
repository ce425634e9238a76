import { deflateSync, gzipSync } from "node:zlib";
import { canonicalType, isAccepted } from "@sluice/core/internal";
import { typeOfName } from "@sluice/client/internal";
import { supportedMimeTypes } from "file-type/core";
import mime from "mime";
import other from "mime/types/other.js";
import standard from "mime/types/standard.js";
import { expect, test } from "vitest";
import { authorizeUpload } from "../src/files-sep-2631/file-transfer.ts";
import type { FileUris } from "../src/files-sep-2631/file-uri.ts";
import { createKindDetector } from "../src/checks/detect-kind.ts";
import { judgeKind } from "../src/checks/file-kind.ts";
import { createFakeSlots } from "./asking.ts";
import { ordinaryFiles } from "./ordinary-kinds.ts";

// What `sluice put` and `send_file` send: the type of a file is a guess from its name, and the slot is that of
// `files/authorizeUpload`.

const text = Buffer.from("export const answer = 42;\n");
const extensions = Object.values({ ...standard, ...other })
  .flat()
  .map((extension) => extension.replace("*", ""));
const allExtensions = [...new Set(extensions)];
const kinds = [...supportedMimeTypes].map(canonicalType);

/** The types that the slot of a file asks for. */
async function askedOf(name: string, mimeType: string | undefined): Promise<readonly string[]> {
  const uris: FileUris = { format: async () => "mcp-file://a/b", parse: () => Promise.reject() };
  const slots = createFakeSlots();
  let asked: readonly string[] = ["nothing was reserved"];
  const reserve: typeof slots.reserve = (owner, terms, options) => {
    asked = terms.accept;
    return slots.reserve(owner, terms, options);
  };
  const caller = { identity: { mayMint: true, owner: undefined }, owner: undefined } as never;
  await authorizeUpload({ slots: { reserve }, uris }, { name, mimeType }, caller);
  return asked;
}

async function isRefused(
  name: string,
  bytes: Uint8Array,
  accept: readonly string[],
): Promise<boolean> {
  const detector = createKindDetector({ name, declaredType: typeOfName(name) }, accept);
  try {
    await detector.add(bytes);
    await detector.kind();
    return false;
  } catch {
    return true;
  }
}

async function refusedTexts(
  acceptOf: (name: string) => readonly string[] | Promise<readonly string[]>,
): Promise<string[]> {
  const refused: string[] = [];
  for (const extension of allExtensions) {
    const name = `index.${extension}`;
    if (await isRefused(name, text, await acceptOf(name))) refused.push(extension);
  }
  return refused;
}

test("a text is taken under every extension that has a media type", async () => {
  expect(allExtensions.length).toBeGreaterThan(1_000);
  expect(await refusedTexts((name) => askedOf(name, typeOfName(name)))).toEqual([]);
});

test("negative control: a slot that asks for the guessed type refuses source code", async () => {
  const refused = await refusedTexts((name) => [typeOfName(name)]);
  expect(refused).toEqual(expect.arrayContaining(["ts", "rs", "bat", "org", "key", "pub", "st"]));
});

test("a file of every kind is taken under a bare name and under its own extensions", async () => {
  const refused: string[] = [];
  for (const type of kinds)
    for (const extension of ["", ...(mime.getAllExtensions(type) ?? [])]) {
      const name = extension === "" ? "object" : `object.${extension}`;
      const accept = await askedOf(name, typeOfName(name));
      const clues = {
        name,
        declaredType: typeOfName(name),
        bytes: { type, isWeak: false, isScript: false },
        signatureTypes: new Set(kinds),
        typeOfExtension: (wanted: string) => mime.getType(`.${wanted}`),
      };
      try {
        judgeKind(clues, accept);
      } catch {
        refused.push(`${name}: ${type}`);
      }
    }
  expect(kinds.length).toBeGreaterThan(150);
  expect(refused).toEqual([]);
});

test.each<readonly [string, Uint8Array]>([
  ["gzip", gzipSync(text)],
  ["an object of git", deflateSync("blob 3\0abc")],
  ["nothing that is known", Buffer.from("0001fffe8090a0b0", "hex")],
  ["an empty file", Buffer.alloc(0)],
  ...ordinaryFiles.map(({ kind, bytes }) => [kind, bytes] as const),
])("%s is taken under a bare name", async (_kind, bytes) => {
  const mimeType = "application/octet-stream";
  expect(await isRefused("f00d", bytes, await askedOf("f00d", mimeType))).toBe(false);
});

test("a sender finds no file wrong that its server takes", () => {
  const wrong = ordinaryFiles.filter(
    ({ name, asked }) =>
      name.includes(".") && !isAccepted({ name, mimeType: typeOfName(name) }, [asked]),
  );
  const aliases = [
    ["photo.jpg", "image/jpg"],
    ["a.zip", "application/x-zip-compressed"],
    ["song.mp3", "audio/mp3"],
    ["feed.xml", "text/xml"],
    ["main.rs", "text/plain"],
  ] as const;
  const unlike = aliases.filter(
    ([name, asked]) => !isAccepted({ name, mimeType: typeOfName(name) }, [asked]),
  );
  expect(wrong.map(({ name, asked }) => `${name} as ${asked}`)).toEqual([]);
  expect(unlike).toEqual([]);
});
