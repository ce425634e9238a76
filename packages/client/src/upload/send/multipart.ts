import type { BodyPiece, FilePiece, OutgoingBody } from "../../net/outgoing-body.ts";

interface FormFile {
  readonly name: string;
  readonly mimeType: string;
  readonly piece: FilePiece;
}

/** Names of the parts, and further parts that come before the files. */
export interface FormShape {
  readonly fileField: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** The form that SEP-1306 §5 demands. */
export const uploadForm: FormShape = { fileField: "file", fields: {} };

/** Files as `multipart/form-data` (RFC 7578) of known length, with the `Content-Type` that names its boundary. */
export function multipartForm(
  files: readonly FormFile[],
  { fileField, fields }: FormShape,
): { readonly body: OutgoingBody; readonly contentType: string } {
  // too random for any file to hold it by accident or on purpose
  const boundary = `sluice-${crypto.randomUUID()}${crypto.randomUUID()}`.replaceAll("-", "");
  const pieces: BodyPiece[] = [];
  for (const [name, value] of Object.entries(fields))
    pieces.push(bytesOf(`--${boundary}\r\n${disposition(name)}\r\n\r\n${value}\r\n`));
  for (const { name, mimeType, piece } of files) {
    const head = `${disposition(fileField)}; filename="${escape(name)}"\r\nContent-Type: ${mimeType}`;
    pieces.push(bytesOf(`--${boundary}\r\n${head}\r\n\r\n`), piece, bytesOf("\r\n"));
  }
  pieces.push(bytesOf(`--${boundary}--\r\n`));
  return {
    body: { length: pieces.reduce((sum, piece) => sum + lengthOf(piece), 0), pieces },
    contentType: `multipart/form-data; boundary=${boundary}`,
  };
}

function disposition(name: string): string {
  return `Content-Disposition: form-data; name="${escape(name)}"`;
}

/** As browsers escape names (WHATWG HTML, multipart/form-data encoding algorithm). */
function escape(name: string): string {
  return name.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function lengthOf(piece: BodyPiece): number {
  return piece instanceof Uint8Array ? piece.length : piece.end - piece.start;
}
