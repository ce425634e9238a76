import { readdir, readFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { type StreamOptions, streamResource } from "@sluice/client";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { connect } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { listen, type Listening } from "../bed/listen.ts";
import { createMeddler, type Exchange, type Meddler } from "../bed/meddler.ts";
import { startSite, type Site } from "../bed/site.ts";

const content = bytesOf(400_000, "content");
const uri = "files://site/a.bin";
const timeouts = { pauseScale: 0 };

let site: Site;
let meddler: Meddler;
let elsewhere: Listening;
const arrived: IncomingMessage[] = [];
let downloads = 0;

beforeAll(async () => {
  site = await startSite({
    files: { "a.bin": content },
    accounts: { "alice-token": { subject: "alice" } },
    front: async (target) => (meddler = await createMeddler(target)),
    sluice: { delivery: "direct" },
  });
  elsewhere = await listen(
    createServer((request, response) => {
      arrived.push(request);
      response.writeHead(200, { "content-type": "text/plain" }).end("stolen");
    }),
  );
});
afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await elsewhere.close();
});
beforeEach(() => {
  arrived.length = 0;
});

/** Puts another answer in place of the one to `resources/stream`. */
function answerStreamWith(answer: (exchange: Exchange) => void): void {
  meddler.meddle = (exchange) => {
    if (!exchange.body.includes('"resources/stream"')) return false;
    exchange.answer.resume();
    answer(exchange);
    return true;
  };
}

function answerJson(result: object): void {
  answerStreamWith(({ body, response }) => {
    const { id } = JSON.parse(body.toString()) as { id: number };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ jsonrpc: "2.0", id, result: { resultType: "complete", ...result } }));
  });
}

async function download(options: StreamOptions = {}): Promise<unknown> {
  const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
  try {
    const stream = await streamResource(client, uri, { timeouts, ...options });
    return await stream.saveTo(join(site.target, `${downloads++}.bin`));
  } finally {
    await client.close();
  }
}

describe("a download URL at an origin that nobody trusted gets no request [SEP-2532/security/should-check-origin]", () => {
  test("another port", async () => {
    answerJson({ uri, downloadUrl: `${elsewhere.origin}/steal` });
    await expect(download()).rejects.toMatchObject({ code: "untrusted" });
    expect(arrived).toEqual([]);
  });

  test("and neither do other spellings of it", { tags: "slow" }, async () => {
    const { port } = elsewhere;
    const spellings = [
      `http://127.0.0.1:${port}@evil.example/`,
      `http://evil.example:${port}/`,
      `//127.0.0.1:${port}/`,
      `http:\\\\127.0.0.1:${port}\\`,
      `http://0x7f.1:${port}/`,
      `http://2130706433:${port}/`,
      `http://127.1:${port}/`,
      `http://[::ffff:127.0.0.1]:${port}/`,
      `ftp://127.0.0.1:${port}/`,
      "file:///etc/passwd",
      "data:text/plain,stolen",
      "javascript:alert(1)",
      "blob:null/1",
      `http://localhost.:${port}/`,
      `http://127.0.0.1:${port}/#fragment`,
      "",
      "not a url",
    ];
    for (const downloadUrl of spellings) {
      answerJson({ uri, downloadUrl });
      await expect(download(), downloadUrl).rejects.toMatchObject({ name: "SluiceError" });
    }
    expect(arrived).toEqual([]);
    expect(await readdir(site.target)).toEqual([]);
  });

  test("a trusted origin gets one, without credentials [SEP-2532/3.download-url/must-send-credentials]", async () => {
    answerJson({ uri, size: 6, downloadUrl: `${elsewhere.origin}/lent` });
    await download({ trustedOrigins: [elsewhere.origin] });
    expect(arrived).toHaveLength(1);
    expect(JSON.stringify(arrived[0]!.headers)).not.toContain("alice-token");
  });
});

test(
  "every kind of redirect becomes a GET without body and secrets [SEP-2532/3.redirect/must-follow]",
  { tags: "slow" },
  async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      arrived.length = 0;
      answerStreamWith(({ response }) =>
        response
          .writeHead(status, { location: `${elsewhere.origin}/x`, "mcp-resource-uri": uri })
          .end(),
      );
      await download({ trustedOrigins: [elsewhere.origin] });
      expect(arrived).toHaveLength(1);
      expect(arrived[0]!.method).toBe("GET");
      const { headers } = arrived[0]!;
      expect(headers).not.toHaveProperty("content-length");
      expect(headers).not.toHaveProperty("content-type");
      expect(JSON.stringify(headers)).not.toMatch(/alice-token|mcp-/);
      arrived.length = 0;
      await expect(download()).rejects.toMatchObject({ code: "untrusted" });
      expect(arrived).toEqual([]);
    }
  },
);

test("redirects in circles come to an end", async () => {
  meddler.meddle = ({ answer, response }) => {
    answer.resume();
    response
      .writeHead(302, { location: `${site.url}/round?${Math.random()}`, "mcp-resource-uri": uri })
      .end();
    return true;
  };
  const client = connect("SDK v2, legacy", site.url).catch(() => undefined);
  await client;
  const streaming = meddler.meddle;
  meddler.meddle = (exchange) =>
    exchange.body.includes('"resources/stream"') || exchange.request.url!.includes("/round")
      ? streaming(exchange)
      : false;
  await expect(download()).rejects.toMatchObject({ code: "protocol" });
});

describe("an answer is taken for what its headers say", () => {
  test("bytes that call themselves JSON are bytes, and steer no client [SEP-2532/3.client/must-check-type] [SEP-2532/3.client/must-parse-json-error]", async () => {
    const trap = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      result: { uri, downloadUrl: `${elsewhere.origin}/steal` },
    });
    answerStreamWith(({ response }) =>
      response
        .writeHead(200, {
          "content-type": "application/json",
          "content-length": trap.length,
          "mcp-resource-uri": uri,
        })
        .end(trap),
    );
    const saved = (await download({ trustedOrigins: [elsewhere.origin] })) as { size: number };
    expect(saved.size).toBe(trap.length);
    expect(arrived).toEqual([]);
  });

  test("JSON-RPC errors are errors [SEP-2532/3.client/must-parse-json-error]", async () => {
    meddler.meddle = () => false;
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    await expect(streamResource(client, "files://site/none")).rejects.toMatchObject({
      code: "not_found",
    });
    await client.close();
  });

  test.each(["text/event-stream", "text/html", "application/problem+json", undefined])(
    "bytes of type %s are bytes, and nothing reads them for what they may mean [SEP-2532/3.client/must-consume-binary]",
    async (type) => {
      const bytes = `data: {"downloadUrl":"${elsewhere.origin}/steal"}\n\n`;
      answerStreamWith(({ response }) =>
        response
          .writeHead(200, {
            ...(type && { "content-type": type }),
            "content-length": bytes.length,
            "mcp-resource-uri": uri,
          })
          .end(bytes),
      );
      const { path } = (await download({ trustedOrigins: [elsewhere.origin] })) as { path: string };
      expect(await readFile(path, "utf8")).toBe(bytes);
      expect(arrived).toEqual([]);
    },
  );

  test("bytes without a name, or with another one, are refused [SEP-2532/3.client/must-consume-binary]", async () => {
    for (const name of [undefined, "files://site/b.bin", "FILES://site/a.bin", `${uri}, ${uri}`]) {
      answerStreamWith(({ response }) =>
        response
          .writeHead(200, {
            "content-type": "image/png",
            "content-length": 3,
            ...(name !== undefined && { "mcp-resource-uri": name }),
          })
          .end("abc"),
      );
      await expect(download(), String(name)).rejects.toMatchObject({ code: "protocol" });
    }
  });

  test("a result for another resource is refused", async () => {
    answerJson({ uri: "files://site/b.bin", downloadUrl: `${site.url}/streams/x` });
    await expect(download()).rejects.toMatchObject({ code: "protocol" });
  });

  test("a compressed body is refused before it is unpacked", async () => {
    answerStreamWith(({ response }) =>
      response
        .writeHead(200, { "content-encoding": "gzip", "mcp-resource-uri": uri })
        .end(Buffer.alloc(1_000)),
    );
    await expect(download()).rejects.toMatchObject({ code: "protocol" });
  });
});

describe("maxStreamSize holds [SEP-2532/3.client/must-enforce-max-size] [SEP-2532/security/must-enforce-max-size]", () => {
  test("against the announced length, before the first byte", async () => {
    answerStreamWith(({ response }) =>
      response.writeHead(200, { "content-length": 1_000_001, "mcp-resource-uri": uri }).write("x"),
    );
    await expect(download({ maxStreamBytes: 1_000_000 })).rejects.toMatchObject({
      code: "too_large",
    });
  });

  test("against the bytes as they come, when none was announced", async () => {
    let sent = 0;
    answerStreamWith(({ response }) => {
      response.writeHead(200, { "mcp-resource-uri": uri });
      const more = () => {
        if (response.destroyed) return;
        sent += 65_536;
        response.write(Buffer.alloc(65_536), more);
      };
      more();
    });
    await expect(download({ maxStreamBytes: 1_000_000 })).rejects.toMatchObject({
      code: "too_large",
    });
    expect(sent).toBeLessThan(20_000_000);
  });

  test("and leaves no file", async () => {
    expect((await readdir(site.target)).filter((name) => name.includes("part"))).toEqual([]);
  });
});

test("the bytes stay out of what the SDK and its caller see as the answer [SEP-2532/3.client/must-not-inject-context]", async () => {
  meddler.meddle = () => false;
  const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
  const results: unknown[] = [];
  const request = client.request.bind(client);
  const watched = {
    request: async (...args: Parameters<typeof request>) => {
      const result = await request(...args);
      results.push(result);
      return result;
    },
  };
  const stream = await streamResource(watched, uri);
  await stream.saveTo(join(site.target, "context.bin"));
  expect(results).toHaveLength(1);
  const text = JSON.stringify(results);
  expect(text.length).toBeLessThan(1_000);
  expect(text).not.toContain("streams/");
  expect(text).not.toMatch(/"(?:blob|content|text|downloadUrl)"/);
  await client.close();
});

test("bytes are handed on as they arrive [SEP-2532/3.client/should-stream-incrementally]", async () => {
  let finish: (() => void) | undefined;
  answerStreamWith(({ response }) => {
    response.writeHead(200, { "content-length": 20_000, "mcp-resource-uri": uri });
    response.write(Buffer.alloc(10_000, 1));
    finish = () => response.end(Buffer.alloc(10_000, 2));
  });
  const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
  const stream = await streamResource(client, uri, { timeouts });
  const reader = stream.body.getReader();
  let early = 0;
  while (early < 10_000) early += (await reader.read()).value!.byteLength;
  finish!();
  let late = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read())
    late += next.value.byteLength;
  expect([early, late]).toEqual([10_000, 10_000]);
  await client.close();
});
