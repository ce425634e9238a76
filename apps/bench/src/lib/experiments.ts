import type { Experiment } from "./table.ts";
import { binary } from "./tables/binary.ts";
import { bridge } from "./tables/bridge.ts";
import { download, downloadThrottled } from "./tables/download.ts";
import { hidden } from "./tables/hidden.ts";
import { imports } from "./tables/imports.ts";
import { memory } from "./tables/memory.ts";
import { mountsTable } from "./tables/mounts.ts";
import { offload } from "./tables/offload.ts";
import { proxy } from "./tables/proxy.ts";
import { replaceBase64 } from "./tables/replace-base64.ts";
import { serveLarge, serveTls } from "./tables/serve-large.ts";
import { serveMany } from "./tables/serve-many.ts";
import { serveSmall } from "./tables/serve-small.ts";
import { stalled } from "./tables/stalled.ts";
import { tokens } from "./tables/tokens.ts";
import { upload } from "./tables/upload.ts";
import { websocket } from "./tables/websocket.ts";

/** Every table, in the order of the report. */
export const experiments: readonly Experiment[] = [
  serveLarge,
  serveMany,
  serveSmall,
  mountsTable,
  serveTls,
  offload,
  memory,
  stalled,
  replaceBase64,
  binary,
  download,
  downloadThrottled,
  proxy,
  upload,
  tokens,
  hidden,
  websocket,
  bridge,
  imports,
];
