import { canonicalType } from "@sluice/core/internal";
import { ActiveTextFinder } from "./active-text.ts";
import { kindOf, wrongType, type FileKind } from "./file-kind.ts";
import { readFirstBytes } from "./first-bytes.ts";

/** Bytes at the beginning of a file that are looked at. */
const headBytes = 4_100;

/** Looks at a file as it comes: at its beginning, and at all of a text that is called a picture. */
export interface KindDetector {
  /** Gives a promise only for the chunk that completes the beginning; it rejects if that is not of an accepted type. */
  add(chunk: Uint8Array): Promise<unknown> | undefined;
  /** Whether what comes next may change the answer. */
  needsMore(): boolean;
  /** Media type of the file, by what has come. Rejects with `unsupported` as {@link kindOf} throws it. */
  kind(): Promise<string>;
}

/** What is said of a file. */
export interface ToldKind {
  readonly name?: string | undefined;
  readonly declaredType?: string | undefined;
}

/** Makes a detector for one file. */
export function createKindDetector(told: ToldKind, accept: readonly string[]): KindDetector {
  const head = new Uint8Array(headBytes);
  let filledBytes = 0;
  let detected: Promise<FileKind> | undefined;
  let finder: ActiveTextFinder | undefined;

  const detect = (): Promise<FileKind> =>
    (detected ??= detectKind(head.subarray(0, filledBytes), told, accept).then((kind) => {
      if (kind.mustBeInactive) finder = new ActiveTextFinder();
      finder?.add(head.subarray(0, filledBytes));
      return kind;
    }));

  return {
    add(chunk) {
      if (filledBytes === headBytes) {
        finder?.add(chunk);
        return undefined;
      }
      const piece = chunk.subarray(0, headBytes - filledBytes);
      head.set(piece, filledBytes);
      filledBytes += piece.length;
      if (filledBytes < headBytes) return undefined;
      return detect().then(() => finder?.add(chunk.subarray(piece.length)));
    },
    needsMore: () => filledBytes < headBytes || finder !== undefined,
    async kind() {
      const { type } = await detect();
      if (finder?.isActive() === true)
        throw wrongType("it is called a picture, and something in it may run");
      return type;
    },
  };
}

/**
 * Rejects with `unsupported` unless the bytes of a file that is here are of a type that is accepted, as they would be
 * for a slot that asks for these. Reads no more than that takes.
 */
export async function ensureAccepted(
  body: ReadableStream<Uint8Array>,
  told: ToldKind,
  accept: readonly string[],
): Promise<void> {
  const detector = createKindDetector(told, accept);
  const reader = body.getReader();
  try {
    while (detector.needsMore()) {
      const { done, value } = await reader.read();
      if (done) break;
      await detector.add(value);
    }
    await detector.kind();
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function detectKind(
  head: Uint8Array,
  { name, declaredType }: ToldKind,
  accept: readonly string[],
): Promise<FileKind> {
  // large tables, wanted only where files arrive
  const [{ fileTypeFromBuffer, supportedMimeTypes }, { default: mime }] = await Promise.all([
    import("file-type/core"),
    import("mime"),
  ]);
  const bytes = await readFirstBytes(head, fileTypeFromBuffer);
  return kindOf(
    {
      name,
      declaredType,
      bytes,
      marked: new Set([...supportedMimeTypes].map(canonicalType)),
      // a name without a dot is looked up as an extension
      typeOfExtension: (extension) => mime.getType(`.${extension}`),
    },
    accept,
  );
}
