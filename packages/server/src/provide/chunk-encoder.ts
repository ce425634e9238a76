/** Makes bytes of the chunks of one source. */
export interface ChunkEncoder {
  /** The bytes of a chunk. Throws a `TypeError` for what is neither text nor bytes, and for a lone surrogate. */
  read(chunk: unknown): Uint8Array;
  /** Throws a `TypeError` where the text ended within a character. */
  end(): void;
}

/** What a chunk reader does with bytes. */
interface ChunkOptions {
  /** Canonical URI of the resource, for messages. */
  readonly uri: string;
  /** `copy` where the source may write to a chunk again. */
  readonly memory: "copy" | "hand-over";
}

const encoder = new TextEncoder();

/** Text becomes UTF-8; a character may be spread over two chunks of text. */
export function createChunkEncoder({ uri, memory }: ChunkOptions): ChunkEncoder {
  /** The first half of a character. */
  let half = "";
  function ensureWhole(isWhole: boolean): void {
    if (!isWhole) throw new TypeError(`provider of ${uri}: the text has a lone surrogate`);
  }
  return {
    read(chunk) {
      if (typeof chunk === "string") {
        let text = half + chunk;
        half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? "";
        text = text.slice(0, text.length - half.length);
        ensureWhole(!/\p{Surrogate}/u.test(text));
        return encoder.encode(text);
      }
      ensureWhole(half === "");
      if (chunk instanceof Uint8Array) return memory === "copy" ? new Uint8Array(chunk) : chunk;
      throw new TypeError(
        `provider of ${uri}: a chunk is neither text nor bytes (${kindOf(chunk)})`,
      );
    },
    end: () => ensureWhole(half === ""),
  };
}

/** What a value is, for messages. */
export function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  return (value.constructor as { name?: string } | undefined)?.name ?? "object";
}
