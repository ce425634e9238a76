import type { Experiment } from "./table.ts";
import { binary } from "./tables/receive/binary.ts";
import { bridge } from "./tables/cost/bridge.ts";
import { download, downloadThrottled } from "./tables/receive/download.ts";
import { hidden } from "./tables/cost/hidden.ts";
import { imports } from "./tables/cost/imports.ts";
import { memory } from "./tables/receive/memory.ts";
import { mountsTable } from "./tables/serve/mounts.ts";
import { offload } from "./tables/serve/offload.ts";
import { proxy } from "./tables/serve/proxy.ts";
import { replaceBase64 } from "./tables/receive/replace-base64.ts";
import { serveLarge, serveTls } from "./tables/serve/serve-large.ts";
import { serveMany } from "./tables/serve/serve-many.ts";
import { serveSmall } from "./tables/serve/serve-small.ts";
import { smallCalls } from "./tables/serve/small-calls.ts";
import { stalled } from "./tables/serve/stalled.ts";
import { tokens } from "./tables/cost/tokens.ts";
import { upload } from "./tables/send/upload.ts";
import { websocket } from "./tables/cost/websocket.ts";
import { bundle } from "./tables/cost/bundle.ts";
import { scale } from "./tables/cost/scale.ts";
import { waiting } from "./tables/cost/waiting.ts";
import { programs } from "./tables/receive/programs.ts";
import { resumable } from "./tables/send/resumable.ts";
import { tree } from "./tables/receive/tree.ts";
import { ways } from "./tables/receive/ways.ts";

/** Every table, in the order of the report. */
export const experiments: readonly Experiment[] = [
  serveLarge,
  serveMany,
  serveSmall,
  smallCalls,
  mountsTable,
  serveTls,
  offload,
  memory,
  stalled,
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
