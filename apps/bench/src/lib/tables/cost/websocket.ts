import { setTimeout as sleep } from "node:timers/promises";
import { formatKey, generateKey } from "@sluice/core";
import { GiB, MiB, type Bench } from "../../bench.ts";
import { interleave } from "../../interleave.ts";
import { curl } from "../../outside-client.ts";
import { createPinger, type Pinger } from "../../pinger.ts";
import { nginx, startPeer } from "../../peers.ts";
import { createRunning } from "../../running.ts";
import { startNodeServer } from "../../server-process.ts";
import { uriOf } from "../../sluice.ts";
import { across, quantile, ratio, type Sample } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const idle = "nothing else";
const bare = "a bare ws server, the download from nginx";
const floor = "a bare ws server that sends the file itself";
const sdkBare = "the official SDK on ws, the download from nginx";
const ofSdk = "the official SDK on ws, which sends the file itself";
const sidecar = "a download from the same process";
const elsewhere = "a download from a process of its own";
const inBand = "the file as binary frames on the connection";

/** How long a message takes over WebSocket while bytes pass. */
export const websocket: Experiment = {
  id: "websocket",
  title: "Messages over WebSocket while a file passes",
  async run(bench: Bench): Promise<Table> {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const file = await bench.file(bytes);
    const keys = formatKey(generateKey());
    const args = [bench.files, keys];
    await using near = await startNodeServer("websocket-server", args, bench);
    await using far = await startNodeServer("websocket-server", args, bench);
    const to = [...args, String(far.ready.port)];
    await using apart = await startNodeServer("websocket-server", to, bench);
    await using pinger = await createPinger(urlOf(near.ready.port, "/mcp"));
    await using other = await createPinger(urlOf(apart.ready.port, "/mcp"));
    await using mixed = await createPinger(urlOf(near.ready.port, "/inband"), {
      initialize: false,
    });

    await using plain = await startNodeServer("ws-echo-server", [], bench);
    await using echo = await createPinger(urlOf(plain.ready.port, "/"), { initialize: false });
    await using single = await startNodeServer("ws-file-server", [bench.files], bench);
    await using alone = await createPinger(urlOf(single.ready.port, "/"), { initialize: false });
    await using sdk = await createPinger(urlOf(single.ready.port, "/mcp"));
    const files = await startPeer(nginx, bench);
    await using running = createRunning();
    if (files) running.use(files);

    const downloadBare = () => curl(`http://127.0.0.1:${single.ready.port}/${file}`, bytes, bench);
    const downloadNginx = () => curl(`http://127.0.0.1:${files?.ready.port}/${file}`, bytes, bench);
    const download = async (by: Pinger): Promise<void> => {
      const { downloadUrl } = await by.call("resources/stream", { uri: uriOf(file) });
      await curl(String(downloadUrl), bytes, bench);
    };
    const subjects = [
      subject(idle, pinger, () => sleep(bench.quick ? 300 : 1_500)),
      ...(files ? [subject(bare, echo, downloadNginx), subject(sdkBare, sdk, downloadNginx)] : []),
      subject(floor, alone, downloadBare),
      subject(ofSdk, sdk, downloadBare),
      subject(sidecar, pinger, () => download(pinger)),
      subject(elsewhere, other, () => download(other)),
      subject(inBand, mixed, () => takeFrames(mixed, file)),
    ];
    const samples = await interleave(subjects, {
      runs: bench.runs,
      onRun: (name, round, { p99 }) =>
        bench.say(`  ${round + 1} ${name}: p99 ${p99?.toFixed(2)} ms`),
    });
    const of = (name: string, base: string) => ratio(samples.get(name), samples.get(base), "p99");
    return {
      how: `Round trips of JSON-RPC pings on one connection, one after the other, while ${bytes / MiB} MiB go to curl, or come between the messages. The bare servers answer pings with \`ws\` alone; those that send the file themselves read and write and do nothing else. The last columns are quotients within a round.`,
      columns: [
        { key: "p50", title: "p50 ms", digits: 2 },
        { key: "p99", title: "p99 ms", digits: 2, bars: true },
        { key: "ofFloor", title: "p99 ÷ p99 of one bare process", digits: 2 },
        { key: "ofBare", title: "p99 ÷ bare p99", digits: 2 },
        { key: "ofIdle", title: "p99 ÷ idle p99", digits: 2 },
      ],
      rows: rowsOf(
        [idle, bare, sdkBare, floor, ofSdk, sidecar, elsewhere, inBand],
        files ? [] : [bare, sdkBare],
        (name) => ({
          p50: across(samples.get(name), "p50"),
          p99: across(samples.get(name), "p99"),
          ofFloor: of(name, floor),
          ofBare: of(name, bare),
          ofIdle: of(name, idle),
        }),
      ),
      reach: [
        {
          claim: "ping p99 beside a download, of a bare server beside nginx",
          atMost: 1.2,
          got: of(sidecar, bare),
          floor: { got: of(sdkBare, bare), profile: ofMessages },
        },
        {
          claim: "the same of a bare server that sends the file itself",
          atMost: 1.2,
          got: of(sidecar, floor),
          floor: { got: of(ofSdk, floor), profile: ofMessages },
        },
        {
          claim: "ping p99 with a process for the bytes, of a bare server beside nginx",
          atMost: 1.2,
          got: of(elsewhere, bare),
          floor: { got: of(sdkBare, bare), profile: ofMessages },
        },
      ],
    };
  },
};

const ofMessages =
  "The least program is the server of the official SDK, which checks every message, with nothing of Sluice. Beyond it the slowest hundredth is the scheduler's: three or more processes share the cores, and the same program differs as much from round to round.";

function urlOf(port: number, path: string): string {
  return `ws://127.0.0.1:${port}${path}`;
}

function subject(name: string, pinger: Pinger, work: () => Promise<unknown>) {
  return {
    name,
    async measure(): Promise<Sample> {
      const times = await pinger.during(work);
      return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
    },
  };
}

/** Asks for a file and waits until its last frame is here. */
async function takeFrames({ socket }: Pinger, file: string): Promise<void> {
  const done = new Promise<void>((resolve) => {
    const look = (data: unknown, isBinary: boolean): void => {
      if (isBinary || !(data as Buffer).includes('"done"')) return;
      socket.off("message", look);
      resolve();
    };
    socket.on("message", look);
  });
  socket.send(JSON.stringify({ id: 0, method: "get", file }));
  await done;
}
