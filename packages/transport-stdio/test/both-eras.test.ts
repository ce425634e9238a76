// @module-tag slow
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as ClientV2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as TransportV2 } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { binaryContent, openBinary, readBinary } from "@sluice/binary-transfer/client";
import {
  createStdioClientTransport,
  type StdioClientTransport,
} from "@sluice/transport-stdio/client";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";

const info = { name: "test", version: "1.0.0" };
const size = 1_500_000;
const bytes = Buffer.from(Array.from({ length: size }, (_, i) => (i * 7) % 251));
const uri = "files://demo/data.bin";
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-stdio-"));
  writeFileSync(join(folder, "data.bin"), bytes);
  writeFileSync(join(folder, "large.bin"), Buffer.alloc(16 * 2 ** 20));
});
afterAll(() => rmSync(folder, { recursive: true }));

const program = (name: string): string =>
  inject("programs")[`packages/transport-stdio/test/${name}-process.ts`]!;
const serving = () => ({ command: process.execPath, args: [program("serving"), folder] });
const official = (version: string) => ({
  command: process.execPath,
  args: [program("official"), version],
});

/** The SDK clients in the field. Their calls are the same, their types are not. */
const clients = {
  "SDK v2, modern": (): ClientV2 =>
    new ClientV2(info, { versionNegotiation: { mode: "auto", probe: { timeoutMs: 5_000 } } }),
  "SDK v2, legacy": (): ClientV2 => new ClientV2(info),
  "SDK v1": (): ClientV2 => new ClientV1(info) as unknown as ClientV2,
} as const;
type Sdk = keyof typeof clients;
const sdks = Object.keys(clients) as Sdk[];

async function connect(sdk: Sdk, transport: StdioClientTransport | TransportV2): Promise<ClientV2> {
  const client = clients[sdk]();
  await client.connect(transport);
  onTestFinished(() => client.close());
  return client;
}

/** A schema that takes everything, as version 2 wants one and as version 1 does. */
const anything = {
  "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) },
  safeParse: (data: unknown) => ({ success: true, data }),
} as never;

async function bytesOf(body: ReadableStream<Uint8Array>): Promise<Buffer> {
  return Buffer.from(await new Response(body).arrayBuffer());
}

if (process.env["SLUICE_DEEP"] === undefined)
  console.info("one revision of SDK v2 moves bytes: both run with SLUICE_DEEP");

test.each(sdks.filter((sdk) => process.env["SLUICE_DEEP"] || sdk !== "SDK v2, legacy"))(
  "%s over our transports: resources, content of tools and of requests go as bytes, and the process ends [BINARY/4.read/binary-ref] [BINARY/4.read/transfer-mode] [BINARY/compatibility/default-base64] [BINARY/transports/stdio]",
  async (sdk) => {
    const transport = createStdioClientTransport(serving());
    const client = await connect(sdk, transport);
    // twice: nothing that was used is given out by a cache
    for (let i = 0; i < 2; i += 1) {
      const resource = await readBinary(client, uri);
      expect(resource).toMatchObject({ uri, size, transferMode: "binary" });
      expect((await bytesOf(resource.body)).equals(bytes)).toBe(true);
    }
    for (const asked of [{ uri }, { uri, transferMode: "base64" }]) {
      const { contents } = await client.readResource(asked);
      expect(contents).toMatchObject([{ uri, blob: bytes.toString("base64") }]);
    }
    for (const name of ["image", "audio", "blob"]) {
      const { content } = await client.callTool({ name });
      const opened = openBinary((content as object[])[0]!)!;
      expect(opened).toMatchObject({ mimeType: "x/y", size: 300_000, transferMode: "binary" });
      expect((await bytesOf(opened.body)).equals(Buffer.alloc(300_000, 7))).toBe(true);
    }
    const content = await binaryContent(transport.outlet!, {
      type: "blob",
      mimeType: "x/y",
      bytes,
    });
    const hashed = await client.request({ method: "test/hash", params: { content } }, anything);
    expect(hashed).toMatchObject({ sha256: createHash("sha256").update(bytes).digest("hex") });
    const { pid } = transport;
    await client.close();
    expect(() => process.kill(pid!, 0)).toThrow(/ESRCH/);
  },
);

test.each([
  ["SDK v2, modern", "v1"],
  ["SDK v1", "v2"],
] as const)(
  "%s over our transport is an ordinary client to an official server of version %s",
  async (sdk, version) => {
    const client = await connect(sdk, createStdioClientTransport(official(version)));
    const read = await readBinary(client, "test://small");
    expect(read).toMatchObject({ size: 5, transferMode: "base64", mimeType: "x/y" });
    expect((await bytesOf(read.body)).toString()).toBe("small");
  },
);

test.each([
  ["SDK v1", () => new TransportV1(serving()) as unknown as TransportV2],
  ["SDK v2, modern", () => new TransportV2(serving())],
] as const)(
  "%s over its own transport sees an ordinary server: plain JSON, and base64 whatever it asks for [BINARY/compatibility/unsupporting-base64]",
  async (sdk, transport) => {
    const client = await connect(sdk, transport());
    const faults: Error[] = [];
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- clients of the SDK have properties only
    client.onerror = (error) => faults.push(error);
    const read = await readBinary(client, uri);
    expect(read.transferMode).toBe("base64");
    expect((await bytesOf(read.body)).equals(bytes)).toBe(true);
    const { content } = await client.callTool({ name: "image" });
    expect(content).toMatchObject([
      { type: "image", data: Buffer.alloc(300_000, 7).toString("base64") },
    ]);
    expect(faults).toEqual([]);
  },
);

describe("a server that is a process", () => {
  test("gets no variables but those that every program needs, and fails what waits for it when it ends", async () => {
    process.env["SLUICE_TEST_SECRET"] = "x";
    onTestFinished(() => void delete process.env["SLUICE_TEST_SECRET"]);
    const transport = createStdioClientTransport({ ...serving(), env: { GIVEN: "1" } });
    const client = await connect("SDK v2, legacy", transport);
    const { content } = await client.callTool({ name: "environment" });
    const names = JSON.parse((content as { text: string }[])[0]!.text) as string[];
    expect(names).toContain("GIVEN");
    expect(names).not.toContain("SLUICE_TEST_SECRET");

    const closed = new Promise<void>((resolve) => {
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- clients of the SDK have properties only
      client.onclose = resolve;
    });
    const { body } = await readBinary(client, "files://demo/large.bin");
    const reader = body.getReader();
    await reader.read();
    await expect(client.callTool({ name: "exit" })).rejects.toThrow(/closed/i);
    await closed;
    await expect(
      (async () => {
        while (!(await reader.read()).done);
      })(),
    ).rejects.toMatchObject({ code: "interrupted" });
  });

  test("is unavailable if it cannot be run", async () => {
    const transport = createStdioClientTransport({ command: join(folder, "no-such-program") });
    await expect(transport.start()).rejects.toMatchObject({ code: "unavailable" });
    await transport.close();
  });

  test("is ended if it does not end by itself", async () => {
    const script =
      "process.on('SIGTERM', () => {}); setInterval(() => {}, 1_000); console.log('{}')";
    const command = { command: process.execPath, args: ["-e", script], exitMs: 50 };
    const transport = createStdioClientTransport(command);
    await transport.start();
    const { pid } = transport;
    await transport.close();
    await expect
      .poll(() => {
        try {
          return process.kill(pid!, 0);
        } catch {
          return "gone";
        }
      })
      .toBe("gone");
  });

  test("keeps no process from ending if it leaves a program behind with its pipes", async () => {
    const heir = `setInterval(() => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", method: "x" }) + "\\n"), 20);
      process.stdout.on("error", () => process.exit());`;
    const script = `require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(heir)}], { stdio: ["ignore", "inherit", "ignore"] });
      process.stdin.on("end", () => process.exit()).resume();`;
    const transport = createStdioClientTransport({
      command: process.execPath,
      args: ["-e", script],
      exitMs: 50,
    });
    const isThere = new Promise<void>((resolve) => {
      Object.assign(transport, { onmessage: () => resolve() });
    });
    await transport.start();
    await isThere;
    await transport.close();
    // its pipes are closed as well: as long as one is open, this process has something to wait for
    await expect.poll(() => transport.pid).toBeUndefined();
  });
});
