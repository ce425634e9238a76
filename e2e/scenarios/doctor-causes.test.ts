// @module-tag slow
// Faults between a server and a client that show only in answers of some kind, size or age: the doctor names each.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FILE_KEYWORD } from "@sluice/core/internal";
import { diagnose, type DiagnoseOptions, type TransferFinding } from "@sluice/bridge";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { createCertificate, type CertificateOptions } from "../bed/certificate.ts";
import { cut, holdBack, pack, startFaultyProxy, type Faults } from "../bed/faulty-proxy.ts";
import { startLinkSite } from "../bed/links.ts";
import { hasNginx, startNginx } from "../bed/nginx.ts";
import { startProgram } from "../bed/program.ts";
import { startSite, type Site, type SiteOptions } from "../bed/site.ts";

vi.setConfig({ testTimeout: 60_000 });

const files = { "a.bin": "0123456789".repeat(20_000) };

function startBehind(front: SiteOptions["front"], options: SiteOptions = {}): Promise<Site> {
  return startSite({ files, ...options, ...(front && { front }) });
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

function look(url: string, options: DiagnoseOptions = {}): Promise<TransferFinding[]> {
  return diagnose(new URL(url), { watchMs: 300, ...options });
}

const causesOf = (findings: readonly TransferFinding[]): string[] =>
  findings.map(({ cause }) => cause);

describe("a certificate", () => {
  const lasting: readonly CertificateOptions["days"][] = [
    [-30, 60],
    [-1 / 24, 1],
    [-350, 15],
  ];
  const others: readonly (readonly [string, RegExp, CertificateOptions])[] = [
    ["renewal", /expires in \d days \(20/, { days: [-80, 10] }],
    ["certificate", /has expired \(20/, { days: [-80, -1] }],
    ["certificate", /is not valid yet \(20/, { days: [1, 80] }],
    ["certificate", /is for another name/, { name: "other.example" }],
    ["certificate", /is self-signed/, {}],
  ];
  /** What is found of a server with each, in the order of the tables. The last one is not trusted. */
  let found: readonly TransferFinding[][] = [];

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-doctor-tls-"));
    const options = [...lasting.map((days) => ({ days: days! })), ...others.map((row) => row[2])];
    const certificates = options.map(createCertificate);
    const sites = await Promise.all(certificates.map((tls) => startSite({ files, tls })));
    const trusted = join(folder, "ca.pem");
    const pems = certificates.slice(0, -1).map(({ cert }) => cert);
    await writeFile(trusted, pems.join(""));
    // a process reads once what it trusts
    const doctor = await startProgram("diagnose", {}, { NODE_EXTRA_CA_CERTS: trusted });
    const urls = sites.map(({ port }) => `https://localhost:${port}/mcp`);
    const seen = await doctor.ask<TransferFinding[][]>(urls);
    // the sites name downloads at 127.0.0.1
    found = seen.map((findings) => findings.filter(({ cause }) => cause !== "public-url"));
    await doctor[Symbol.asyncDispose]();
    for (const site of sites) await site[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  test.each(lasting.map((days, index) => [days, index] as const))(
    "is not reported if it is valid for long enough: days %j",
    (_days, index) => {
      expect(found[index]).toEqual([]);
    },
  );

  test.each(others.map(([cause, message], index) => [cause, message, index] as const))(
    "is a matter of %s and said to be so: %s",
    (cause, message, index) => {
      expect(found[lasting.length + index]).toEqual([
        { cause, message: expect.stringMatching(message) },
      ]);
    },
  );
});

// how large a body the doctor dares to send depends on how fast the ones before were: one test at a time
describe("a limit of requests", () => {
  const bounds = /Requests of (\d+) KiB are refused \(413\), and those of (\d+) KiB pass: /;

  test.each([100, 300, 900, 1_500])("is found at %i KiB and reported", async (limit) => {
    let sent = 0;
    await using site = await startBehind(
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
    const [finding] = await look(site.url, { direction: "upload" });
    const [, refused, passed] = bounds.exec(finding?.message ?? "") ?? [];
    expect(Number(passed)).toBeLessThanOrEqual(limit);
    expect(Number(refused)).toBeGreaterThanOrEqual(limit);
    expect(sent).toBeLessThan(4.1 * 2 ** 20);
  });

  test.skipIf(!hasNginx).concurrent("is found in nginx, even if it is the default", async () => {
    await using limited = await startBehind(nginx("client_max_body_size 100k;"));
    const [own] = await look(limited.url);
    expect(own?.message).toMatch(bounds);
    await using plain = await startBehind(nginx(""));
    const [byDefault] = await look(plain.url, { direction: "upload" });
    const [, refused, passed] = bounds.exec(byDefault?.message ?? "") ?? [];
    expect([Number(passed) <= 1_024, Number(refused) >= 1_024]).toEqual([true, true]);
  });

  test("is not reported for the server itself, and matters at a proxy if files come in", async () => {
    await using plain = await startBehind(undefined);
    expect(await look(plain.url)).toEqual([]);
    // messages are smaller, files may be larger
    const front = faulty({
      answer(request, response) {
        if (Number(request.headers["content-length"] ?? 0) < 500_000) return false;
        response.writeHead(413, { "content-type": "text/html" }).end("<h1>too large</h1>");
        return true;
      },
    });
    await using limited = await startBehind(front);
    expect(await look(limited.url)).toEqual([]);
    const author: SiteOptions["author"] = (mcp) =>
      mcp.registerTool(
        "keep",
        { inputSchema: z.object({ file: z.string().meta({ [FILE_KEYWORD]: {} }) }) },
        () => ({ content: [] }),
      );
    await using taking = await startBehind(front, { author });
    expect(causesOf(await look(taking.url))).toEqual(["body-cap"]);
  });

  test("is found where uploads go, if messages of that size are refused by the server", async () => {
    const front = faulty({
      answer(request, response) {
        const size = Number(request.headers["content-length"] ?? 0);
        const isUpload = request.url?.includes("/u/") === true;
        if (size < (isUpload ? 400_000 : 200_000)) return false;
        const type = isUpload ? "text/html" : "application/json";
        response.writeHead(413, { "content-type": type }).end("{}");
        return true;
      },
    });
    await using limited = await startBehind(front);
    const [finding] = await look(limited.url, { direction: "upload" });
    expect(finding).toMatchObject({ cause: "body-cap" });
    const [, refused, passed] = bounds.exec(finding?.message ?? "") ?? [];
    expect([Number(passed) < 400, Number(refused) > 380]).toEqual([true, true]);
  });
});

const isDirect = (answer: IncomingMessage, { method }: IncomingMessage): boolean =>
  method === "POST" && "mcp-resource-uri" in answer.headers;

// with `direct`, the server gives no download URL
describe.each(["auto", "direct"] as const)(
  "direct answers of a server, delivery %s",
  (delivery) => {
    const lookBehind = async (faults: Faults): Promise<string[]> => {
      await using site = await startBehind(faulty(faults), { sluice: { delivery } });
      return causesOf(await look(site.url));
    };

    test.concurrent("are not reported if they arrive unchanged", async () => {
      let seen = 0;
      const causes = await lookBehind({
        passOn: (answer, _response, request) => {
          if (isDirect(answer, request)) seen += 1;
          return false;
        },
      });
      expect([causes, seen > 0]).toEqual([[], true]);
    });

    test.concurrent("are found to be changed if a proxy packs them", async () => {
      const causes = await lookBehind({
        passOn: (answer, response, request) => isDirect(answer, request) && pack(answer, response),
      });
      expect(causes).toEqual(["changed"]);
    });

    test.concurrent("are found to be cut if a proxy cuts them", async () => {
      const causes = await lookBehind({
        passOn: (answer, response, request) => isDirect(answer, request) && cut(answer, response),
      });
      expect(causes).toEqual(["cut"]);
    });

    // late is what comes later than other answers: no other test makes those late
    test("are found to be buffered if a proxy holds them back", async () => {
      const causes = await lookBehind({
        passOn: (answer, response, request) =>
          isDirect(answer, request) && holdBack(answer, response),
      });
      expect(causes).toEqual(["buffering"]);
    });

    test.concurrent("are found to lack ranges if a proxy drops those", async () => {
      expect(await lookBehind({ headers: (headers) => void delete headers.range })).toEqual([
        "range",
      ]);
    });
  },
);

describe.concurrent("links", () => {
  const lookBehind = async (status: number): Promise<TransferFinding[]> => {
    await using site = await startLinkSite({
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
    return await look(site.url);
  };

  test("are not reported if they open", async () => {
    expect(await lookBehind(0)).toEqual([]);
  });

  test.each([
    [401, "access"],
    [403, "access"],
    [404, "public-url"],
    [502, "server"],
  ])("with status %i from a proxy are a matter of %s", async (status, cause) => {
    const [finding, another] = await lookBehind(status);
    expect([finding?.cause, another]).toEqual([cause, undefined]);
    // what follows is the link's secret
    expect(finding?.message).not.toMatch(/\/d\/\S*\w{8}/);
  });
});

describe.skipIf(!hasNginx).concurrent.each([false, true])(
  "streams of events behind nginx, with sessions: %s",
  (sessions) => {
    test("are not reported if they pass", async () => {
      await using site = await startBehind(nginx("proxy_buffering off;"), { sessions });
      expect(await look(site.url)).toEqual([]);
    });

    test("are reported as cut after a while if they are watched for longer", async () => {
      await using site = await startBehind(nginx("proxy_read_timeout 2s;"), { sessions });
      const findings = await look(site.url, { watchMs: 5_000 });
      expect(findings).toEqual([
        { cause: "cut", message: expect.stringMatching(/is cut after [123] s: /) },
      ]);
      expect(await look(site.url)).toEqual([]);
    });
  },
);

test
  .skipIf(!hasNginx)
  .concurrent("events that nginx holds back are a matter of buffering", async () => {
    const settings = "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;";
    // of chunks it passes each on
    await using site = await startBehind(nginx(settings, "1.0"));
    expect(causesOf(await look(site.url))).toEqual(["buffering"]);
  });
