import { assertBytes, oneMiB, pattern, readKey, text } from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";
import { type ObjectInSteps, commit, openStep, partOf, step } from "../../steps.ts";

const kib = 1024;

/** A view of the bytes that begins in the middle of its memory, as sockets and files give them. */
function viewOf(bytes: Uint8Array): Uint8Array {
  const memory = new Uint8Array(bytes.byteLength + 20).fill(0x55);
  memory.set(bytes, 7);
  return memory.subarray(7, 7 + bytes.byteLength);
}

/** The bytes in chunks of one size; the last one is what is left. */
function cut(bytes: Uint8Array, chunkBytes: number): Uint8Array[] {
  const chunks = [];
  for (let at = 0; at < bytes.byteLength; at += chunkBytes)
    chunks.push(bytes.subarray(at, at + chunkBytes));
  return chunks;
}

/** Chunks of one object, by their peculiarity. */
function chunksOf(part: number): Readonly<Record<string, readonly Uint8Array[]>> {
  const none = new Uint8Array();
  return {
    "one chunk of 64 KiB": [pattern(64 * kib)],
    "one chunk of 512 KiB": [pattern(512 * kib)],
    "two chunks of 256 KiB": cut(pattern(512 * kib), 256 * kib),
    "a chunk of 5 MiB": [pattern(5 * oneMiB)],
    "exactly one part": cut(pattern(part), oneMiB),
    "exactly two parts": cut(pattern(2 * part), part),
    "a byte less than a part": [pattern(part - 1)],
    "a thousand chunks": cut(pattern(7000), 7),
    "empty chunks between others": [none, text("a"), none, none, text("b"), none],
    "the same chunk again": [pattern(1000), pattern(1000), pattern(1000)],
    "zeros at the end of chunks": [new Uint8Array(4 * kib), text("x\0\0"), new Uint8Array(100)],
  };
}

/** Sizes of chunks, parts and steps. */
export const writeSizeRules: readonly Rule[] = [
  rule({
    id: "write-sizes",
    sentence:
      "chunks of every size and kind arrive: exact chunks and parts, many, empty, equal, views, zeros",
    needs: ["backend.write"],
    async check(fixture) {
      const { backend } = fixture;
      for (const [what, chunks] of Object.entries(chunksOf(partOf(fixture)))) {
        const writer = await backend.write("sizes.bin");
        for (const chunk of chunks) await writer.write(viewOf(chunk));
        await writer.commit();
        assertBytes(await readKey(backend, "sizes.bin"), Buffer.concat(chunks), what);
      }
    },
  }),
  rule({
    id: "steps-sizes",
    sentence:
      "steps of every size and kind arrive: of no bytes, of exactly one part, many, in views",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const part = partOf(fixture);
      const exact = pattern(part);
      let object: ObjectInSteps | undefined;
      for (const bytes of [exact, new Uint8Array(), exact, text("end")])
        object = await step(backend, "sizes/parts.bin", bytes, object);
      if (object) await commit(backend, "sizes/parts.bin", object);
      assertBytes(
        await readKey(backend, "sizes/parts.bin"),
        Buffer.concat([exact, exact, text("end")]),
        "steps of exactly one part",
      );
      object = undefined;
      for (const bytes of cut(pattern(1200), 100)) {
        const writer = await openStep(backend, "sizes/many.bin", object);
        for (const chunk of cut(bytes, 30)) {
          await writer.write(new Uint8Array());
          await writer.write(viewOf(chunk));
        }
        object = { id: writer.id, end: await writer.suspend() };
      }
      if (object) await commit(backend, "sizes/many.bin", object);
      assertBytes(await readKey(backend, "sizes/many.bin"), pattern(1200), "twelve steps");
    },
  }),
];
