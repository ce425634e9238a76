/**
 * Stands for the hub of Hugging Face as far as a download of one file needs it: `node hub-server.js ORIGIN FILE SIZE`.
 * Each file resolves to a redirect to ORIGIN, as files in LFS do. Prints its port as a line of JSON when it listens.
 */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const [origin = "", file = "", size = "0"] = process.argv.slice(2);
const commit = createHash("sha1").update(file).digest("hex");
const etag = `"${createHash("sha256").update(file).digest("hex")}"`;

const server = createServer((request, response) => {
  if (request.url?.startsWith("/api/")) {
    const siblings = [{ rfilename: file }];
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify({ id: "bench/model", sha: commit, siblings }));
  }
  return response
    .writeHead(302, {
      location: `${origin}/${file}`,
      etag,
      "x-repo-commit": commit,
      "x-linked-etag": etag,
      "x-linked-size": size,
    })
    .end();
});
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
