import type { TableSpec } from "../lib/table.ts";
import { bundle, hidden, imports, tokens } from "./cost.ts";
import { download, downloadThrottled, programs, tree } from "./download.ts";
import { scale, waiting } from "./held.ts";
import { bridge, websocket } from "./messages.ts";
import { offload, proxy } from "./pass-on.ts";
import { binary, memory, replaceBase64, ways } from "./receive.ts";
import { resumable, upload } from "./send.ts";
import * as serve from "./serve.ts";

/** Every table, in the order of the report. */
export const specs: readonly TableSpec[] = [
  serve.serveLarge,
  serve.serveMany,
  serve.serveSmall,
  serve.smallCalls,
  serve.mountsTable,
  serve.serveTls,
  offload,
  memory,
  serve.stalled,
  replaceBase64,
  ways,
  binary,
  download,
  downloadThrottled,
  programs,
  tree,
  proxy,
  upload,
  resumable,
  tokens,
  hidden,
  websocket,
  bridge,
  imports,
  waiting,
  scale,
  bundle,
];
