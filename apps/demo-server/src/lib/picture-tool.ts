import type { McpServer } from "@modelcontextprotocol/server";
import type { UploadedFile, Uploads } from "@sluice/uploads";
import { imageSize } from "image-size";

/** Registers a tool that asks the user for a picture and says what it is. */
export function registerPictureTool(mcp: McpServer, uploads: Uploads): void {
  uploads.registerTool(
    mcp,
    "describe_picture",
    {
      description: "Asks the user for a picture; gives its size in pixels and its SHA-256",
      message: "Which picture shall I describe?",
      fields: {
        picture: { type: "file", title: "Picture", accept: ["image/*"], maxBytes: 50 * 2 ** 20 },
      },
    },
    async ({ files }) => {
      const facts = await describePicture(files.picture);
      const text = `${facts.name}: ${facts.width} × ${facts.height}, SHA-256 ${facts.sha256}`;
      return { content: [{ type: "text", text }], structuredContent: facts };
    },
  );
}

/** What is known of a picture. */
interface PictureFacts extends Record<string, unknown> {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly sha256: string;
}

/** The dimensions stand near the beginning: no more of it is read than it takes to find them. */
async function describePicture(picture: UploadedFile): Promise<PictureFacts> {
  const { name, size, sha256 } = picture;
  for (let headBytes = 16 * 1024; ; headBytes *= 8) {
    const head = await readHead(picture, Math.min(headBytes, size));
    try {
      const { width, height } = imageSize(head);
      return { name, width, height, sha256 };
    } catch (error) {
      if (headBytes >= Math.min(size, mostHeadBytes)) throw error;
    }
  }
}

/** Metadata before the dimensions can be long, not endless. */
const mostHeadBytes = 2 ** 20;

async function readHead(picture: UploadedFile, length: number): Promise<Uint8Array> {
  const { body } = await picture.open({ range: { start: 0, end: length } });
  return new Uint8Array(await new Response(body).arrayBuffer());
}
