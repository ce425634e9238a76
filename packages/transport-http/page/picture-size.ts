/** Width and height in pixels. */
export interface PictureSize {
  readonly width: number;
  readonly height: number;
}

/**
 * The size of a PNG, GIF, JPEG or WebP as its first bytes tell it, before anything is unpacked; `undefined` for other content, and
 * for what is cut off before it.
 */
export function pictureSize(bytes: Uint8Array): PictureSize | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const head = view.getUint32(0);
    // PNG specification, 5.2 and 11.2.1
    if (head === 0x89504e47) return { width: view.getUint32(16), height: view.getUint32(20) };
    // GIF89a, 18: "GIF8"
    if (head === 0x47494638)
      return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
    if (head >>> 16 === 0xffd8) return jpegSize(view);
    // RFC 9649, 2.4: "RIFF" and "WEBP"
    if (head === 0x52494646 && view.getUint32(8) === 0x57454250) return webpSize(view);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return undefined;
}

/** Goes from segment to segment to the one of the frame (ITU-T T.81, B.2.2). */
function jpegSize(view: DataView): PictureSize | undefined {
  for (let at = 2; view.getUint8(at) === 0xff;) {
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    at += 2 + view.getUint16(at + 2);
  }
  return undefined;
}

function webpSize(view: DataView): PictureSize | undefined {
  switch (view.getUint32(12)) {
    // "VP8X", an extended file: 24 bits each, less one
    case 0x56503858:
      return { width: uint24(view, 24) + 1, height: uint24(view, 27) + 1 };
    // "VP8L", lossless: 14 bits each, less one
    case 0x5650384c: {
      const bits = view.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    // "VP8 ", lossy: 14 bits each
    case 0x56503820:
      return {
        width: view.getUint16(26, true) & 0x3fff,
        height: view.getUint16(28, true) & 0x3fff,
      };
    default:
      return undefined;
  }
}

function uint24(view: DataView, at: number): number {
  return view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
}
