import { mkdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { GiB, KiB, MiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { observeClient } from "../../client-process.ts";
import { interleave } from "../../interleave.ts";
import { curl, isInstalled } from "../../outside-client.ts";
import { nginx, startPeer } from "../../peers.ts";
import { createRunning } from "../../running.ts";
import { startNodeServer, type ServerProcess } from "../../server-process.ts";
import { startSluiceServer, uriOf } from "../../sluice.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const names = {
  curl: "curl, unverified",
  copyUrl: "rclone copyurl, unverified",
  remote: "rclone copy from an http remote",
  hub: "huggingface.js, unverified",
  hf: "hf download",
  saveTo: "Sluice saveTo, verified",
};

/** Other programs that bring one large file to the disk. */
export const programs: Experiment = {
  id: "programs",
  title: "Downloading 1 GiB with other programs",
  async run(bench: Bench): Promise<Table> {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const file = await bench.file(bytes);
    const warmUp = uriOf(await bench.file(4 * KiB));
    await using running = createRunning();
    const files = await startPeer(nginx, bench);
    if (files) running.use(files);
    const origin = `http://127.0.0.1:${files?.ready.port}`;
    // another host than that of the hub: hf takes a redirect on the same host for one within the hub
    const elsewhere = origin.replace("127.0.0.1", "localhost");
    const hub = running.use(
      await startNodeServer("hub-server", [elsewhere, file, `${bytes}`], bench),
    );
    const sluice = running.use(await startSluiceServer(bench, { delivery: "downloadUrl" }));
    const directory = await bench.scratch("programs");
    const target = join(directory, file);
    const run = async (command: string, ...args: readonly string[]): Promise<number> =>
      (await runToEnd(command, args, bench)).seconds;
    const seen = async (name: string, args: readonly string[], server: ServerProcess) =>
      (await observeClient(bench, name, args, server)).seconds;
    const ways: Readonly<Record<string, () => Promise<number>>> = {
      [names.curl]: () => curl(`${origin}/${file}`, bytes, { signal: bench.signal, to: target }),
      [names.copyUrl]: () => run("rclone", ...rclone, "copyurl", `${origin}/${file}`, target),
      [names.remote]: () =>
        run("rclone", ...rclone, "copyto", "--http-url", origin, `:http:${file}`, target),
      [names.hub]: () =>
        seen("hub-client", [`http://127.0.0.1:${hub.ready.port}`, file, target], hub),
      [names.hf]: () => {
        const place = [`HF_ENDPOINT=http://127.0.0.1:${hub.ready.port}`, `HF_HOME=${directory}`];
        const quiet = ["HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1"];
        const args = ["download", "bench/model", file, "--local-dir", directory];
        return run("env", ...place, ...quiet, "hf", ...args);
      },
      [names.saveTo]: () =>
        seen("sluice-client", [sluice.endpoint, uriOf(file), warmUp, "", target, "1"], sluice),
    };
    const absent = await absentOf(files !== undefined);
    const subjects = Object.entries(ways)
      .filter(([name]) => !absent.includes(name))
      .map(([name, save]) => ({
        name,
        async measure() {
          const seconds = await save();
          const { size } = await stat(target);
          if (size !== bytes) throw new Error(`bench: ${name}: ${size} of ${bytes} bytes`);
          await rm(directory, { recursive: true });
          await mkdir(directory);
          bench.say(`  ${name}: ${seconds.toFixed(2)} s`);
          return { seconds, rate: 1 / seconds };
        },
      }));
    const samples = await interleave(subjects, bench);
    const of = (name: string, other: string): Summary | undefined =>
      ratio(samples.get(name), samples.get(other), "rate");
    return {
      how: "nginx serves the file to curl and rclone, and to the clients of the hub behind a small stand-in that answers its resolve URL with a redirect, without Xet. Sluice's client takes it from Sluice. Programs are started anew, except for the clients of Node, whose clock begins at the call; hf starts Python. curl = 1.00.",
      columns: [
        { key: "rate", title: "rate", digits: 2, bars: true },
        { key: "seconds", title: "seconds", digits: 2 },
      ],
      rows: rowsOf(Object.values(names), absent, (name) => ({
        rate: of(name, names.curl),
        seconds: across(samples.get(name), "seconds"),
      })),
      reach: [names.copyUrl, names.remote, names.hub, names.hf].map((name) => ({
        claim: `saveTo of ${name}`,
        atLeast: 1,
        got: of(names.saveTo, name),
        floor: {
          profile:
            "rclone and curl hash nothing while the bytes come; the floor of a client in Node that does stands in the table of one download.",
        },
      })),
    };
  },
};

const rclone = ["--config", "/dev/null", "--quiet"];

async function absentOf(hasNginx: boolean): Promise<readonly string[]> {
  if (!hasNginx) return Object.values(names).filter((name) => name !== names.saveTo);
  const byRclone = (await isInstalled("rclone")) ? [] : [names.copyUrl, names.remote];
  return (await isInstalled("hf")) ? byRclone : [...byRclone, names.hf];
}
