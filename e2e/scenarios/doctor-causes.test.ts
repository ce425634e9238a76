// Faults between a server and a client that show only in answers of some kind, size or age: the doctor names each.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { FILE_KEYWORD } from "@sluice/core/wire";
import { diagnose, type DiagnoseOptions, type Finding } from "@sluice/bridge";
import { describe, expect, inject, onTestFinished, test, type TestContext, vi } from "vitest";
import { z } from "zod";
import { createCertificate, type CertificateOptions } from "../bed/certificate.ts";
import { startFaultyProxy, type Faults } from "../bed/faulty-proxy.ts";
import { startLinkSite } from "../bed/links.ts";
import { hasNginx, startNginx } from "../bed/nginx.ts";
import { startSite, type SiteOptions } from "../bed/site.ts";

vi.setConfig({ testTimeout: 60_000 });

const files = { "a.bin": "0123456789".repeat(20_000) };

async function startBehind(front: SiteOptions["front"], options: SiteOptions = {}) {
  const site = await startSite({ files, ...options, ...(front && { front }) });
  onTestFinished(() => site[Symbol.asyncDispose]());
  return site.url;
}

const faulty =
  (faults: Faults): SiteOptions["front"] =>
  (target) =>
    startFaultyProxy(target, faults);

const nginx =
  (settings: string, version = "1.1"): SiteOptions["front"] =>
  (target) =>
    startNginx(
      (port) => `server { listen 127.0.0.1:${port}; location / { proxy_http_version ${version};
        proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:${target()}; ${settings} } }`,
    );

function look(url: string, options: DiagnoseOptions = {}): Promise<Finding[]> {
  return diagnose(new URL(url), { watchMs: 300, ...options });
}

const causesOf = (findings: readonly Finding[]): string[] => findings.map(({ cause }) => cause);

describe("a certificate", () => {
  /** What the command says of a server with it, where it is trusted or not. */
  async function lookAtTls(
    { onTestFinished: atEnd }: TestContext,
    options: CertificateOptions,
    isTrusted = true,
  ): Promise<Finding[]> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-doctor-tls-"));
    atEnd(() => rm(folder, { recursive: true }));
    const tls = createCertificate(options);
    await writeFile(join(folder, "ca.pem"), tls.cert);
    const site = await startSite({ files, tls });
    atEnd(() => site[Symbol.asyncDispose]());
    const program = inject("programs")["packages/cli/src/main.ts"]!;
    const url = `https://localhost:${site.port}/mcp`;
    const child = spawn(process.execPath, [program, "doctor", url, "--json", "--watch", "1"], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: isTrusted ? join(folder, "ca.pem") : "" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const { findings } = JSON.parse(await text(child.stdout)) as { readonly findings: Finding[] };
    // the site names downloads at 127.0.0.1
    return findings.filter(({ cause }) => cause !== "public-url");
  }

  // each of them waits for a second of an open stream
  test.concurrent.for<[CertificateOptions["days"]]>([[[-30, 60]], [[-1 / 24, 1]], [[-350, 15]]])(
    "that is valid for long enough is no finding: days %j",
    async ([days], context) => {
      expect(await lookAtTls(context, { days: days! })).toEqual([]);
    },
  );

  test.concurrent.for<[string, RegExp, CertificateOptions, boolean]>([
    ["renewal", /expires in \d days \(20/, { days: [-80, 10] }, true],
    ["certificate", /has expired \(20/, { days: [-80, -1] }, true],
    ["certificate", /is not valid yet \(20/, { days: [1, 80] }, true],
    ["certificate", /is for another name/, { name: "other.example" }, true],
    ["certificate", /is self-signed/, {}, false],
  ])(
    "is a matter of %s and said to be so: %s",
    async ([cause, message, options, isTrusted], context) => {
      context
        .expect(await lookAtTls(context, options, isTrusted))
        .toEqual([{ cause, message: expect.stringMatching(message) }]);
    },
  );
});

describe("a limit of requests", () => {
  const bounds = /Requests of (\d+) KiB are refused \(413\), and those of (\d+) KiB pass: /;

  test.each([100, 300, 900, 1_500])("of %i KiB is found and said", async (limit) => {
    let sent = 0;
    const url = await startBehind(
      faulty({
        answer(request, response) {
          const length = Number(request.headers["content-length"] ?? 0);
          sent += length;
          if (length <= limit * 1024) return false;
          response.writeHead(413, { "content-type": "text/html" }).end("<h1>too large</h1>");
          return true;
        },
      }),
    );
    const [finding] = await look(url, { direction: "upload" });
    const [, refused, passed] = bounds.exec(finding?.message ?? "") ?? [];
    expect(Number(passed)).toBeLessThanOrEqual(limit);
    expect(Number(refused)).toBeGreaterThanOrEqual(limit);
    expect(sent).toBeLessThan(4.1 * 2 ** 20);
  });

  test.skipIf(!hasNginx)("of nginx is found, also the one that it has by default", async () => {
    const [own] = await look(await startBehind(nginx("client_max_body_size 100k;")));
    expect(own?.message).toMatch(bounds);
    const [byDefault] = await look(await startBehind(nginx("")), { direction: "upload" });
    const [, refused, passed] = bounds.exec(byDefault?.message ?? "") ?? [];
    expect([Number(passed) <= 1_024, Number(refused) >= 1_024]).toEqual([true, true]);
  });

  test("of the server itself is none, and the one of a proxy matters where files come in", async () => {
    expect(await look(await startBehind(undefined))).toEqual([]);
    // the server takes 256 KiB in a message, and more in an upload
    const front = faulty({
      answer(request, response) {
        if (Number(request.headers["content-length"] ?? 0) < 500_000) return false;
        response.writeHead(413, { "content-type": "text/html" }).end("<h1>too large</h1>");
        return true;
      },
    });
    expect(await look(await startBehind(front))).toEqual([]);
    const author: SiteOptions["author"] = (mcp) =>
      mcp.registerTool(
        "keep",
        { inputSchema: z.object({ file: z.string().meta({ [FILE_KEYWORD]: {} }) }) },
        () => ({ content: [] }),
      );
    expect(causesOf(await look(await startBehind(front, { author })))).toEqual(["body-cap"]);
  });
});

/** Passes an answer on with another body. */
async function rewrite(
  answer: IncomingMessage,
  response: ServerResponse,
  change: (body: Buffer) => Buffer,
  more: Record<string, string> = {},
): Promise<true> {
  const body = change(await buffer(answer));
  const { "content-length": _, "transfer-encoding": __, ...headers } = answer.headers;
  response.writeHead(answer.statusCode ?? 502, { ...headers, ...more }).end(body);
  return true;
}

const isDirect = (answer: IncomingMessage, { method }: IncomingMessage): boolean =>
  method === "POST" && "mcp-resource-uri" in answer.headers;

// with `direct`, the server gives no download URL
describe.each(["auto", "direct"] as const)(
  "direct answers of a server, delivery %s",
  (delivery) => {
    const lookBehind = async (faults: Faults): Promise<string[]> =>
      causesOf(await look(await startBehind(faulty(faults), { sluice: { delivery } })));

    test("that arrive as they are are none", async () => {
      let seen = 0;
      const causes = await lookBehind({
        passOn: (answer, _response, request) => {
          if (isDirect(answer, request)) seen += 1;
          return false;
        },
      });
      expect([causes, seen > 0]).toEqual([[], true]);
    });

    test("that a proxy packs", async () => {
      const causes = await lookBehind({
        passOn: (answer, response, request) =>
          isDirect(answer, request) &&
          rewrite(answer, response, gzipSync, { "content-encoding": "gzip" }),
      });
      expect(causes).toEqual(["changed"]);
    });

    test("that a proxy cuts", async () => {
      const causes = await lookBehind({
        passOn(answer, response, request) {
          if (!isDirect(answer, request)) return false;
          response.writeHead(200, answer.headers);
          answer.once("data", (chunk: Buffer) => {
            response.write(chunk.subarray(0, 1_000), () => response.destroy());
          });
          return true;
        },
      });
      expect(causes).toEqual(["cut"]);
    });

    test("that a proxy holds back", async () => {
      const causes = await lookBehind({
        async passOn(answer, response, request) {
          if (!isDirect(answer, request)) return false;
          await new Promise((resolve) => setTimeout(resolve, 1_500));
          return rewrite(answer, response, (body) => body);
        },
      });
      expect(causes).toEqual(["buffering"]);
    });

    test("whose ranges a proxy drops", async () => {
      expect(await lookBehind({ headers: (headers) => void delete headers.range })).toEqual([
        "range",
      ]);
    });
  },
);

describe("links", () => {
  const lookBehind = async (status: number): Promise<Finding[]> => {
    const site = await startLinkSite({
      files,
      ...(status > 0 && {
        front: faulty({
          answer(request, response) {
            if (!request.url?.startsWith("/mcp/d/")) return false;
            response.writeHead(status).end();
            return true;
          },
        })!,
      }),
    });
    onTestFinished(() => site[Symbol.asyncDispose]());
    return look(site.url);
  };

  test("that open are none", async () => {
    expect(await lookBehind(0)).toEqual([]);
  });

  test.each([
    [401, "access"],
    [403, "access"],
    [404, "public-url"],
    [502, "server"],
  ])("that a proxy answers with %i are a matter of %s", async (status, cause) => {
    const [finding, another] = await lookBehind(status);
    expect([finding?.cause, another]).toEqual([cause, undefined]);
    // what follows is the link's secret
    expect(finding?.message).not.toMatch(/\/d\/\S*\w{8}/);
  });
});

describe.skipIf(!hasNginx).each([false, true])(
  "streams of events behind nginx, with sessions: %s",
  (sessions) => {
    test("that pass are none", async () => {
      expect(await look(await startBehind(nginx("proxy_buffering off;"), { sessions }))).toEqual(
        [],
      );
    });

    test("that are cut after a while are found where they are watched for longer", async () => {
      const url = await startBehind(nginx("proxy_read_timeout 2s;"), { sessions });
      const findings = await look(url, { watchMs: 5_000 });
      expect(findings).toEqual([
        { cause: "cut", message: expect.stringMatching(/is cut after [123] s: /) },
      ]);
      expect(await look(url)).toEqual([]);
    });
  },
);

test.skipIf(!hasNginx)("events that nginx holds back are a matter of buffering", async () => {
  const settings = "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;";
  // of chunks it passes each on
  const url = await startBehind(nginx(settings, "1.0"));
  expect(causesOf(await look(url))).toEqual(["buffering"]);
});
