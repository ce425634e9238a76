import { definedMembers } from "@sluice/core";
import type { OpenedObject } from "./backend.ts";

/** An open object without its body. */
interface Faces extends Pick<OpenedObject, "info"> {
  readonly range?: OpenedObject["range"] | undefined;
  readonly file?: OpenedObject["file"] | undefined;
  readonly bytes?: OpenedObject["bytes"] | undefined;
}

/** An open object whose body is made when it is read: a reader of another face pays nothing for the portable one. */
export function withBody(
  { info, range, file, bytes }: Faces,
  makeBody: () => ReadableStream<Uint8Array>,
): OpenedObject {
  let body: ReadableStream<Uint8Array> | undefined;
  const opened = {
    info,
    get body() {
      return (body ??= makeBody());
    },
  };
  return Object.assign(opened, definedMembers({ range, file, bytes }));
}
