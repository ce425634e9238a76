// Every entry that a Worker may import. To load it is the test: nothing of them draws random bytes or starts timers then.
import * as binary from "@sluice/binary-transfer";
import * as binaryClient from "@sluice/binary-transfer/client";
import * as client from "@sluice/client";
import * as clientCache from "@sluice/client/cache";
import * as clientConnect from "@sluice/client/connect";
import * as core from "@sluice/core";
import * as server from "@sluice/server";
import * as storage from "@sluice/storage";
import * as http from "@sluice/transport-http";
import * as socket from "@sluice/transport-ws/client";
import * as uploads from "@sluice/uploads";
import * as uploadsClient from "@sluice/client/send";
import * as sluice from "sluice";
import * as sluiceClient from "sluice/client";

const entries = [
  binary,
  binaryClient,
  client,
  clientCache,
  clientConnect,
  core,
  server,
  storage,
  http,
  socket,
  uploads,
  uploadsClient,
  sluice,
  sluiceClient,
];

export default {
  fetch: (): Response => Response.json(entries.map((entry) => Object.keys(entry).length)),
};
