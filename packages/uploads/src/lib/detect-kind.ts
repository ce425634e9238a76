import { kindOf } from "./file-kind.ts";

/** As many bytes of a file as are looked at. */
export const sniffedBytes = 4_100;

/**
 * Says what a file is by its first bytes, its name and its declared type. Throws `unsupported` when
 * they contradict each other or the slot does not accept it.
 */
export async function detectKind(
  head: Uint8Array,
  {
    name,
    declaredType,
  }: { readonly name?: string | undefined; readonly declaredType?: string | undefined },
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
      hasMark: (essence) => supportedMimeTypes.has(essence as never),
      typeOfName: (known) => mime.getType(known),
    },
    accept,
  );
}
