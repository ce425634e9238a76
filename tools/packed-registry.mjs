// A registry on this machine that has packages of this repository as a release would publish them. Needs the build.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { packInto } from "./copy-template.mjs";
import { packageManifest } from "./pack.mjs";

/** The version of the next release: the first one is a minor. */
function releasedVersion(name) {
  const { version } = packageManifest(name);
  return version === "0.0.0" ? "0.1.0" : version;
}

/**
 * Packs `names`, folders of `packages`, into a folder, and serves them. A request for another package is redirected to
 * `upstream`, the address of a registry, or is 404 without one.
 */
export async function startRegistry(folder, names, upstream) {
  const files = new Map();
  const server = createServer((request, response) => {
    // npm writes the slash of a scope as %2f
    const answer = files.get(request.url.replace(/%2f/i, "/"));
    if (answer) response.writeHead(200).end(answer());
    else if (upstream === undefined) response.writeHead(404).end();
    else response.writeHead(307, { location: new URL(upstream).origin + request.url }).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  for (const name of names) {
    const file = packInto(folder, name);
    const tarball = readFileSync(join(folder, file));
    const { stdout } = spawnSync("tar", ["-xzOf", join(folder, file), "package/package.json"]);
    const manifest = JSON.parse(stdout);
    const version = releasedVersion(name);
    for (const other of names) {
      const id = packageManifest(other).name;
      if (manifest.dependencies?.[id]) manifest.dependencies[id] = `^${releasedVersion(other)}`;
    }
    const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
    const dist = { tarball: `${origin}/${file}`, integrity };
    const versions = { [version]: { ...manifest, version, dist } };
    const packument = { name: manifest.name, "dist-tags": { latest: version }, versions };
    files.set(`/${manifest.name}`, () => JSON.stringify(packument));
    files.set(`/${file}`, () => tarball);
  }
  return { origin, close: () => server.close() };
}
