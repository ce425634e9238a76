import { describe, expect, test } from "vitest";
import { createHost } from "./bridged.ts";
import { startHostsTo, transportTo } from "./hosting.ts";
import { startLegacyPeer, startModernPeer } from "./peers.ts";

const servers = { legacy: startLegacyPeer, modern: startModernPeer } as const;
const pairs = (["legacy", "modern"] as const).flatMap((host) =>
  (["legacy", "modern"] as const).map((server) => ({ host, server })),
);

describe.each(pairs)("a $host host in front of a $server server", ({ host, server }) => {
  test("lists, calls, answers questions and hears of progress", async () => {
    const peer = await servers[server]();
    const hosting = await startHostsTo(peer.url);
    const client = createHost(host);
    await client.connect(transportTo(hosting));
    expect((await client.listTools()).tools.length).toBeGreaterThan(5);
    const echoed = await client.callTool({ name: "echo", arguments: { a: 1 } });
    expect(JSON.stringify(echoed.content)).toContain("echo");
    for (const name of ["ask", "sample", "roots"]) {
      const { content } = await client.callTool({ name });
      expect(JSON.stringify(content)).toMatch(/Ada|sampled|file:/);
    }
    const progress: number[] = [];
    await client.callTool(
      { name: "progress" },
      { onprogress: ({ progress: done }) => void progress.push(done) },
    );
    expect(progress).toEqual([1, 2]);
    await client.close();
  });
});
