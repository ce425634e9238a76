/** Where long strings of messages are written: a folder, memory, or a storage. */
export interface SpoolTarget {
  /** Begins a string. Rejects with `no_space`, `permission_denied`, and with what else the place says. */
  create(): Promise<SpoolPart>;
}

/** A string on its way, that has no name yet. */
export interface SpoolPart {
  /** Bytes that are written. */
  readonly bytes: number;
  /** Appends. The chunk is free again when it resolves. */
  write(chunk: Uint8Array): Promise<void>;
  /** Ends the writing, and gives what was written, once. */
  reread(): AsyncIterable<Uint8Array>;
  /** Ends the writing: lower-case hex of the SHA-256. */
  seal(): Promise<string>;
  /** Gives it a name like this one, which has an extension: absolute path of the file, or URI of the held result. */
  publish(name: string): Promise<string>;
  /** Removes it, under whatever name. Idempotent. */
  discard(): Promise<void>;
}
