import { httpExchange } from "../net/node/http-exchange.ts";
import {
  assembleFileSender,
  sourceOfBlob,
  type FileSender,
  type FileSenderOptions,
} from "./file-sender.ts";
import { createSender } from "./send/sender.ts";
import type { PickedFile } from "./source/file-source.ts";
import { pathSource } from "./source/path-source.ts";
import type { ClientSession } from "./upload-target.ts";

/** Makes a sender over Node's own HTTP client, with the credentials of a session. */
export function createSessionSender(
  session: ClientSession,
  options: Omit<FileSenderOptions<PickedFile>, "endpoint" | "token">,
): FileSender<PickedFile> {
  return assembleFileSender(session, options, {
    sender: createSender(httpExchange),
    async sourceOf(picked) {
      if (typeof picked === "string") return pathSource({ path: picked });
      return "path" in picked ? pathSource(picked) : sourceOfBlob(picked);
    },
  });
}
