import { constants } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { randomPartName } from "@sluice/client";
import { createSha256 } from "@sluice/core";
import type { Reservation } from "./room.ts";
import type { SpoolPart } from "../spool-target.ts";
import { folderFault } from "./folder-fault.ts";

/** What the folder does for its parts. */
export interface PartOwner {
  /** Has room for bytes before they are written. */
  readonly reservation: Reservation;
  ended(): void;
  publish(from: string, name: string): Promise<string>;
}

const readBytes = 65_536;

/** Creates a file that did not exist; no link is followed. Only this user reads it. */
export async function createPart(folder: string, owner: PartOwner): Promise<SpoolPart> {
  const { reservation } = owner;
  let path = join(folder, randomPartName());
  const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants;
  const handle = await open(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, 0o600).catch(
    async (error) => {
      await reservation.release();
      throw folderFault(error);
    },
  );
  const hash = createSha256();
  let bytes = 0;
  let isDiscarded = false;

  return {
    get bytes() {
      return bytes;
    },
    async write(chunk) {
      await reservation.growAhead(bytes + chunk.length);
      bytes += chunk.length;
      hash.update(chunk);
      let written = 0;
      while (written < chunk.length)
        written += await handle
          .write(chunk, written)
          .then(({ bytesWritten }) => bytesWritten)
          .catch((error) => {
            throw folderFault(error);
          });
    },
    async *reread() {
      for (let at = 0; at < bytes;) {
        const buffer = new Uint8Array(readBytes);
        const { bytesRead } = await handle.read(buffer, 0, readBytes, at);
        if (bytesRead === 0) return;
        yield buffer.subarray(0, bytesRead);
        at += bytesRead;
      }
    },
    async seal() {
      await handle.close();
      return hash.digest();
    },
    async publish(name) {
      path = await owner.publish(path, name);
      await reservation.release();
      owner.ended();
      return path;
    },
    async discard() {
      if (isDiscarded) return;
      isDiscarded = true;
      owner.ended();
      await handle.close();
      await unlink(path).catch(() => {});
      await reservation.release();
    },
  };
}
