import type { OpenedObject } from "./backend.ts";

/** An open object without its body. */
interface Faces extends Pick<OpenedObject, "info"> {
  readonly range?: OpenedObject["range"] | undefined;
  readonly file?: OpenedObject["file"] | undefined;
  readonly bytes?: OpenedObject["bytes"] | undefined;
  readonly validator?: OpenedObject["validator"] | undefined;
}

/** An open object whose body is made when it is read: a reader of another face pays nothing for the portable one. */
export function withBody(faces: Faces, makeBody: () => ReadableStream<Uint8Array>): OpenedObject {
  return new OpenedFaces(faces, makeBody);
}

/** A class rather than closures, because every response with bytes makes one. */
class OpenedFaces implements OpenedObject {
  readonly info: OpenedObject["info"];
  declare readonly body: ReadableStream<Uint8Array>;
  declare readonly range?: NonNullable<OpenedObject["range"]>;
  declare readonly file?: NonNullable<OpenedObject["file"]>;
  declare readonly bytes?: NonNullable<OpenedObject["bytes"]>;
  declare readonly validator?: NonNullable<OpenedObject["validator"]>;
  readonly #makeBody: () => ReadableStream<Uint8Array>;
  #body: ReadableStream<Uint8Array> | undefined;

  constructor(
    { info, range, file, bytes, validator }: Faces,
    makeBody: () => ReadableStream<Uint8Array>,
  ) {
    this.info = info;
    this.#makeBody = makeBody;
    Object.defineProperty(this, "body", OpenedFaces.#lazyBody);
    if (range) this.range = range;
    if (file) this.file = file;
    if (bytes) this.bytes = bytes;
    if (validator !== undefined) this.validator = validator;
  }

  /** An own member, so that a copy of the object also has a body. */
  static readonly #lazyBody: PropertyDescriptor & ThisType<OpenedFaces> = {
    enumerable: true,
    get() {
      return (this.#body ??= this.#makeBody());
    },
  };
}
