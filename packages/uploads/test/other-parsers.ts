import type { Readable, Writable } from "node:stream";
import { setImmediate as breathe } from "node:timers/promises";
import { Busboy } from "@fastify/busboy";
import busboy from "busboy";

/** Reads a form with a parser that others use: contents of the files in the field `file`; `undefined` for a fault. */
export type OtherParser = (
  contentType: string,
  body: readonly Uint8Array[],
) => Promise<string[] | undefined>;

/** Parsers of forms to compare with, by name. */
export const otherParsers: Readonly<Record<string, OtherParser>> = {
  "@fastify/busboy": (contentType, body) =>
    readWith(
      new Busboy({ headers: { "content-type": contentType }, isPartAFile: () => true }),
      body,
    ),
  "busboy 1.6.0": (contentType, body) =>
    readWith(busboy({ headers: { "content-type": contentType } }), body),
};

async function readWith(
  parser: Writable,
  body: readonly Uint8Array[],
): Promise<string[] | undefined> {
  const contents: string[] = [];
  let end: "whole" | "faulty" | undefined;
  parser.on("file", (field: string, stream: Readable) => {
    if (field !== "file") {
      stream.resume();
      return;
    }
    const at = contents.push("") - 1;
    stream.on("data", (bytes: Buffer) => (contents[at] += bytes.toString("latin1")));
    stream.on("error", () => (end = "faulty"));
  });
  parser.on("error", () => (end = "faulty"));
  parser.on("finish", () => (end ??= "whole"));
  for (const piece of body) parser.write(piece);
  parser.end();
  // all of it is in memory: a parser that says nothing for so long has lost its end
  for (let turns = 0; turns < 20; turns++) {
    if (end) break;
    await breathe();
  }
  return end === "whole" ? contents : undefined;
}
