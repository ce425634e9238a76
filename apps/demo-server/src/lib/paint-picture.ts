import { randomFillSync } from "node:crypto";
import { crc32, deflateSync } from "node:zlib";

/** A PNG of grey noise, which no compression makes smaller: about a byte for each pixel. */
export function paintPicture(width: number, height: number): Buffer {
  // each line begins with the number of its filter: none
  const lines = randomFillSync(Buffer.alloc((width + 1) * height));
  for (let line = 0; line < height; line++) lines[line * (width + 1)] = 0;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8; // bits of a sample, and one sample a pixel
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(lines, { level: 0 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** PNG §5.3: length, type, data, and a checksum of type and data. */
function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(data.length, 0);
  ends.writeUInt32BE(crc32(named), 4);
  return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
}
