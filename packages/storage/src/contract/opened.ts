import type { OpenedObject } from "./backend.ts";

/**
 * The same open object with another body, made when somebody asks for it: who takes another face
 * pays nothing for the portable one.
 */
export function withBody(
  { info, range, file, bytes }: Omit<OpenedObject, "body">,
  makeBody: () => ReadableStream<Uint8Array>,
): OpenedObject {
  let body: ReadableStream<Uint8Array> | undefined;
  return {
    info,
    ...(range !== undefined && { range }),
    ...(file !== undefined && { file }),
    ...(bytes !== undefined && { bytes }),
    get body() {
      return (body ??= makeBody());
    },
  };
}

/** Lets go of an open object that nobody will read; that this may fail too helps nobody. */
export async function discard(opened: OpenedObject, reason?: unknown): Promise<void> {
  if (opened.bytes !== undefined) return;
  await (opened.file?.close() ?? opened.body.cancel(reason)).catch(() => {});
}
