// What the server has beside the files of one folder.
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Fetched } from "../client-process.ts";
import { noteUri } from "./notes.ts";
import { startPeer } from "./peer.ts";
import { archiveUri, reportUri } from "./provide-made.ts";

/** Files of more bytes are not put into an archive, which takes their room on the disk. */
const mostBytes = 512 * 1024 ** 2;

/** What came of it. */
export interface Others {
  /** First line of a note in the second storage. */
  readonly note: string;
  /** Files of the folder, and their bytes, as the report has them. */
  readonly files: number;
  readonly bytes: number;
  /** The archive of them; absent where it would be too large for a demo. */
  readonly archive?: { readonly bytes: number; readonly durationMs: number };
}

/** Where it is fetched. */
export interface OtherTrial {
  readonly folder: string;
  /** File of the audit trail. */
  readonly trail: string;
  readonly downloads: string;
}

/** Fetches a note, the report and the archive from a fresh server. Rejects unless the archive is whole. */
export async function fetchOthers({ folder, trail, downloads }: OtherTrial): Promise<Others> {
  const server = startPeer("server-process");
  const client = startPeer("client-process");
  try {
    const settings = { folder, trail, delivery: "auto" };
    const { port } = await server.ask<{ port: number }>("start", settings);
    const fetchTo = (uri: string, path: string): Promise<Fetched> =>
      client.ask<Fetched>("stream", { url: `http://127.0.0.1:${port}/mcp`, uri, path });
    const [note, report, archive] = ["note.md", "report.csv", "all.zip"].map((name) =>
      join(downloads, name),
    ) as [string, string, string];
    await fetchTo(noteUri, note);
    await fetchTo(reportUri, report);
    const [, ...lines] = (await readFile(report, "utf8")).trimEnd().split("\n");
    const bytes = lines.reduce((sum, line) => sum + Number(/,(\d*),[^,]*$/.exec(line)?.[1]), 0);
    const told = {
      note: (await readFile(note, "utf8")).split("\n", 1)[0]!,
      files: lines.length,
      bytes,
    };
    const others =
      bytes > mostBytes
        ? told
        : {
            ...told,
            archive: await weigh(archive, (await fetchTo(archiveUri, archive)).durationMs),
          };
    await server.ask("closeTrail");
    return others;
  } finally {
    await Promise.all([server.stop(), client.stop()]);
  }
}

/** Length of the record at the end of a ZIP archive, and how it begins (APPNOTE 4.3.16). */
const endRecord = { bytes: 22, signature: 0x504b0506 };

async function weigh(path: string, durationMs: number): Promise<NonNullable<Others["archive"]>> {
  await using file = await open(path);
  const { size } = await file.stat();
  const end = Buffer.alloc(endRecord.bytes);
  await file.read(end, 0, end.length, size - end.length);
  if (end.readUInt32BE(0) !== endRecord.signature) throw new Error("the archive has no end");
  return { bytes: size, durationMs };
}
