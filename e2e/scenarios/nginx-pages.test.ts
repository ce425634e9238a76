import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createCertificate } from "../bed/certificate.ts";
import { adapted, hasNginx, startNginx } from "../bed/nginx.ts";

const docs = new URL("../../docs/", import.meta.url);
const pages = (await readdir(docs, { recursive: true })).filter((name) => name.endsWith(".md"));
const texts = await Promise.all(pages.map((name) => readFile(new URL(name, docs), "utf8")));
const sites = pages.flatMap((page, i) =>
  [...texts[i]!.matchAll(/^```nginx\n([\s\S]*?)^```$/gm)].map(([, site = ""], n) => ({
    name: `${page}, block ${n + 1}`,
    text: texts[i]!,
    site,
  })),
);

/** What `listen` says for TLS with HTTP/2, by the version of nginx, as the pages have it. */
function tlsOf(port: number): string {
  const [, major, minor] = /nginx\/(\d+)\.(\d+)/.exec(
    spawnSync("nginx", ["-v"], { encoding: "utf8" }).stderr,
  )!;
  const isOld = Number(major) === 1 && Number(minor) < 25;
  return isOld ? `listen ${port} ssl http2;` : `listen ${port} ssl; http2 on;`;
}

test("every page with a configuration of nginx names the version that it runs on", () => {
  expect(sites.length).toBeGreaterThan(3);
  for (const { name, text } of sites) expect(text, name).toContain("runs on nginx 1.22 and later");
});

describe.skipIf(!hasNginx)("nginx", () => {
  test.each(sites)(
    "takes every directive of $name, with TLS as the page says",
    async ({ site }) => {
      const folder = await mkdtemp(join(tmpdir(), "sluice-tls-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const { key, cert } = createCertificate();
      await writeFile(join(folder, "key.pem"), key);
      await writeFile(join(folder, "cert.pem"), cert);
      const files = `ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;`;
      const nginx = await startNginx((port) =>
        adapted(site, { "listen 8000;": `${tlsOf(port)} ${files}` }),
      );
      onTestFinished(() => nginx.close());
      const status = new Promise<number | undefined>((resolve, reject) => {
        const url = `https://127.0.0.1:${nginx.port}/nowhere`;
        request(url, { ca: cert, agent: false }, (answer) => {
          resolve(answer.resume().statusCode);
        })
          .on("error", reject)
          .end();
      });
      expect(await status).toBe(404);
    },
  );

  test("finds a directive that it does not know", async () => {
    const { site } = sites[0]!;
    const start = startNginx((port) =>
      adapted(site, { "listen 8000;": `listen ${port}; http4 on;` }),
    );
    await expect(start).rejects.toThrow("unknown directive");
  });
});
