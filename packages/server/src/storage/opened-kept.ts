import type { ObjectInfo, OpenedObject } from "@sluice/storage";
import { createBytesBody, type KeptObject } from "@sluice/storage/plugin";

/** What lies in memory, as `open` would give it. */
export class OpenedKept implements OpenedObject {
  readonly info: ObjectInfo;
  readonly bytes: Uint8Array;

  constructor({ info, bytes }: KeptObject) {
    this.info = info;
    this.bytes = bytes;
  }

  get body(): ReadableStream<Uint8Array> {
    // a reader of a body owns its chunks
    return createBytesBody(new Uint8Array(this.bytes), undefined);
  }
}
