import { kindOf } from "./file-kind.ts";

/** As many bytes of a file as are looked at. */
const headBytes = 4_100;

/** Looks at the beginning of a file as it comes. */
export interface KindDetector {
  /** Settles when the beginning is there and may be of such a file; nothing to wait for before and after. */
  add(chunk: Uint8Array): Promise<unknown> | undefined;
  /** What the file is, by what has come. Rejects with `unsupported` as {@link detectKind} does. */
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
  let filled = 0;
  let detected: Promise<string> | undefined;
  const kind = (): Promise<string> =>
    (detected ??= detectKind(head.subarray(0, filled), told, accept));
  return {
    add(chunk) {
      if (filled === headBytes) return undefined;
      const piece = chunk.subarray(0, headBytes - filled);
      head.set(piece, filled);
      filled += piece.length;
      return filled === headBytes ? kind() : undefined;
    },
    kind,
  };
}

/**
 * Says what a file is by its first bytes, its name and its declared type. Throws `unsupported` when
 * they contradict each other or the slot does not accept it.
 */
async function detectKind(
  head: Uint8Array,
  { name, declaredType }: ToldKind,
  accept: readonly string[],
): Promise<string> {
  // large tables, wanted only where files arrive
  const [{ fileTypeFromBuffer, supportedMimeTypes }, { default: mime }] = await Promise.all([
    import("file-type/core"),
    import("mime"),
  ]);
  const found = head.length === 0 ? undefined : await fileTypeFromBuffer(head);
  return kindOf(
    {
      name,
      declaredType,
      detectedType: found?.mime,
      hasMark: (essence) => supportedMimeTypes.has(essence),
      typeOfName: (known) => mime.getType(known),
    },
    accept,
  );
}
