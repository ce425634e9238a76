import type { Readable, Writable } from "node:stream";
import { Busboy } from "@fastify/busboy";
import busboy from "busboy";

/** Reads a form with a parser that others use: contents of its files, or `undefined` where it finds a fault. */
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

function readWith(parser: Writable, body: readonly Uint8Array[]): Promise<string[] | undefined> {
  return new Promise((resolve) => {
    const contents: string[] = [];
    const fail = (): void => resolve(undefined);
    parser.on("file", (_field: string, stream: Readable) => {
      const at = contents.push("") - 1;
      stream.on("data", (bytes: Buffer) => (contents[at] += bytes.toString("latin1")));
      stream.on("error", fail);
    });
    parser.on("error", fail);
    parser.on("close", () => resolve(contents));
    parser.on("finish", () => resolve(contents));
    for (const piece of body) parser.write(piece);
    parser.end();
  });
}
