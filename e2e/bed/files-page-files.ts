import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { crc32, deflateSync } from "node:zlib";

/** A picture of one colour; without colour a pixel is a bit. */
function png(width: number, height: number, { isGrey = false } = {}): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set(isGrey ? [1, 0] : [8, 2], 8);
  const lineBytes = isGrey ? Math.ceil(width / 8) : width * 3;
  const line = Buffer.concat([Buffer.alloc(1), Buffer.alloc(lineBytes, 0x59)]);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: height }, () => line)));
  const signature = Buffer.from("89504e470d0a1a0a", "hex");
  const chunks = [chunk("IHDR", head), chunk("IDAT", pixels), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([signature, ...chunks]);
}

/** One page with two words. */
function pdf(): string {
  const text = "BT /F 24 Tf 40 100 Td (A manual) Tj ET";
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
    `<</Length ${text.length}>>stream\n${text}\nendstream`,
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
  ];
  let file = "%PDF-1.4\n";
  const places = objects.map((object, at) => {
    const place = file.length;
    file += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(place).padStart(10, "0")} 00000 n \n`;
  });
  const table = `xref\n0 6\n0000000000 65535 f \n${places.join("")}`;
  return `${file}${table}trailer<</Size 6/Root 1 0 R>>\nstartxref\n${file.length}\n%%EOF\n`;
}

/** A tenth of a second of silence. */
function wav(): Buffer {
  const head = Buffer.alloc(44);
  head.write("RIFF\0\0\0\0WAVEfmt ", 0, "latin1");
  head.writeUInt32LE(36 + 1_600, 4);
  head.set([16, 0, 0, 0, 1, 0, 1, 0], 16);
  head.writeUInt32LE(8_000, 24);
  head.writeUInt32LE(16_000, 28);
  head.set([2, 0, 16, 0], 32);
  head.write("data", 36, "latin1");
  head.writeUInt32LE(1_600, 40);
  return Buffer.concat([head, Buffer.alloc(1_600)]);
}

const longName = `Minutes of the meeting about ${"the arrangement of all meetings, ".repeat(5)}final.txt`;

/** A folder as people have them: each name with its content. */
export const ordinaryFiles: Readonly<Record<string, string | Buffer>> = {
  "Reports/2026/summary.md": "# Summary\n\nAll is *well*.\n",
  "Reports/2026/Q1/numbers.csv": "a,b\n1,2\n",
  "Photos/beach.png": png(64, 64),
  "sunset.png": png(480, 320),
  "drawing.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="200" height="120"><script>document.title = "run"</script><rect width="200" height="120" fill="#2550d6"/></svg>`,
  "notes.txt": "The first line.\nThe second line.\n",
  "README.md": "# Files\n\n- one\n- two\n",
  "accounts.csv": `name;amount\n"Miller; Sons";12\n"<b>Bold</b>";13\n`,
  "chime.wav": wav(),
  "dot.gif": Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64"),
  "dot.webp": Buffer.from("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA", "base64"),
  "clip.webm": Buffer.from("GkXfo59ChoEBQveBAULygQRC84EIQoKEd2VibUKHgQRChYEC", "base64"),
  "settings.json": `{ "theme": "dark" }\n`,
  // 9 kB that unpack to 256 MB
  "bomb.png": png(8_000, 8_000, { isGrey: true }),
  "not a picture.png": "text",
  "manual.pdf": pdf(),
  "backup.zip": Buffer.from("504b0506000000000000000000000000000000000000", "hex"),
  "page.html": "<script>document.title = 'run'</script>",
  "empty.txt": "",
  [longName]: "long",
  "דוח שנתי 2026.pdf": "%PDF-1.4\n",
  "تقرير المبيعات.csv": "أ,ب\n١,٢\n",
  "日本語の資料.txt": "日本語",
};

/** Writes files into a folder. */
export async function writeFiles(
  root: string,
  files: Readonly<Record<string, string | Buffer>>,
): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), content);
  }
}
