/** A format of pictures or sound that hosts hand to their models as content. */
export interface MediaFormat {
  readonly kind: "image" | "audio";
  /** As hosts take it. */
  readonly mimeType: string;
  /** How its files begin: one character for each byte, and `?` for any. */
  readonly beginnings: readonly string[];
}

// a host whose model refuses one picture refuses every later message of the chat: what a name says is not enough
const formats: readonly MediaFormat[] = [
  { kind: "image", mimeType: "image/png", beginnings: ["\x89PNG\r\n\x1a\n"] },
  { kind: "image", mimeType: "image/jpeg", beginnings: ["\xff\xd8\xff"] },
  { kind: "image", mimeType: "image/gif", beginnings: ["GIF87a", "GIF89a"] },
  { kind: "image", mimeType: "image/webp", beginnings: ["RIFF????WEBP"] },
  { kind: "audio", mimeType: "audio/wav", beginnings: ["RIFF????WAVE"] },
  {
    kind: "audio",
    mimeType: "audio/mpeg",
    beginnings: ["ID3", "\xff\xfb", "\xff\xfa", "\xff\xf3", "\xff\xf2", "\xff\xe3", "\xff\xe2"],
  },
  { kind: "audio", mimeType: "audio/ogg", beginnings: ["OggS"] },
  { kind: "audio", mimeType: "audio/flac", beginnings: ["fLaC"] },
  { kind: "audio", mimeType: "audio/mp4", beginnings: ["????ftypM4A ", "????ftypM4B "] },
  {
    kind: "audio",
    mimeType: "audio/aac",
    beginnings: ["\xff\xf1", "\xff\xf9", "\xff\xf0", "\xff\xf8"],
  },
];

/** The format of a picture or of sound that models take; `undefined` unless type and bytes say the same. */
export function mediaFormatOf(mimeType: string, bytes: Uint8Array): MediaFormat | undefined {
  return formats.find(
    ({ kind, beginnings }) =>
      mimeType.startsWith(`${kind}/`) &&
      beginnings.some((beginning) => beginsWith(bytes, beginning)),
  );
}

function beginsWith(bytes: Uint8Array, beginning: string): boolean {
  return beginning.split("").every((char, at) => char === "?" || bytes[at] === char.charCodeAt(0));
}
