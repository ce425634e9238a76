import { GiB, KiB, MiB, type Bench } from "../../bench.ts";
import { observeClient } from "../../client-process.ts";
import { startPeer, pump } from "../../peers.ts";
import { startSluiceServer, uriOf } from "../../sluice.ts";
import { summarise } from "../../statistics.ts";
import type { Experiment, Reach, Row, Table, Trace } from "../../table.ts";

/** Memory of both ends while a file passes, by mode and by size. */
export const memory: Experiment = {
  id: "memory",
  title: "Memory while a file passes",
  async run(bench: Bench): Promise<Table> {
    const sizes = bench.quick ? [64 * MiB, GiB] : [64 * MiB, GiB, 8 * GiB];
    const warmUp = uriOf(await bench.file(4 * KiB));
    const rows: Row[] = [];
    const reach: Reach[] = [];
    const traces: Trace[] = [];
    await using elsewhere = (await startPeer(pump, bench))!;
    for (const mode of ["direct", "redirect", "downloadUrl"] as const) {
      for (const bytes of sizes) {
        await using server = await startSluiceServer(bench, {
          delivery: mode,
          storageOrigin: `http://127.0.0.1:${elsewhere.ready.port}`,
        });
        const uri = uriOf(await bench.sparseFile(bytes));
        const args = [server.endpoint, uri, warmUp, `http://127.0.0.1:${elsewhere.ready.port}`];
        const seen = await observeClient(bench, "sluice-client", args, server);
        if (seen.bytes !== bytes) throw new Error(`bench: got ${seen.bytes} of ${bytes} bytes`);
        const size = bytes >= GiB ? `${bytes / GiB} GiB` : `${bytes / MiB} MiB`;
        const name = `${mode}, ${size}`;
        const client = summarise([seen.client.peakMiB - seen.client.idleMiB]);
        const serving = summarise([seen.server.peakMiB - seen.server.idleMiB]);
        bench.say(
          `  ${name}: client +${client!.median.toFixed(0)}, server +${serving!.median.toFixed(0)} MiB`,
        );
        rows.push({ name: `Sluice, ${name}`, cells: { client, server: serving } });
        if (bytes !== sizes.at(-1)) continue;
        reach.push(
          { claim: `${name}: client growth in MiB`, atMost: 48, got: client },
          { claim: `${name}: server growth in MiB`, atMost: 48, got: serving },
        );
        traces.push(
          { name: `client, ${name}`, points: seen.client.points },
          { name: `server, ${name}`, points: seen.server.points },
        );
      }
    }
    return {
      how: "Growth of resident memory over idle (connected, one 4 KiB transfer done), each pair of processes fresh, the file sparse. The redirect leads to another server.",
      columns: [
        { key: "client", title: "client growth MiB", digits: 0, bars: true },
        { key: "server", title: "server growth MiB", digits: 0, bars: true },
      ],
      rows,
      reach,
      traces,
    };
  },
};
