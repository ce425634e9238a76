// A registry on this machine that has packages of this repository as a release would publish them. Needs the build.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { packAll } from "./pack.mjs";

/** The manifest inside a tarball. */
function manifestOf(tarball) {
  const { stdout, status } = spawnSync("tar", ["-xzOf", tarball, "package/package.json"]);
  if (status !== 0) throw new Error(`${tarball}: no package/package.json`);
  return JSON.parse(stdout);
}

const unreleased = "0.0.0";
const firstVersion = "0.1.0";
/** Ranges of packages that were not released yet, as their first release has them. */
const releasedRanges = (ranges = {}) =>
  Object.fromEntries(
    Object.entries(ranges).map(([name, range]) => [
      name,
      range === unreleased ? `^${firstVersion}` : range,
    ]),
  );

/** A manifest as the first release has it. */
const asReleased = ({ version, dependencies, peerDependencies, ...manifest }) => ({
  ...manifest,
  version: version === unreleased ? firstVersion : version,
  dependencies: releasedRanges(dependencies),
  peerDependencies: releasedRanges(peerDependencies),
});

/**
 * Serves the tarballs of a folder. A request for another package is redirected to `upstream`, the address of a registry, or is
 * 404 without one. Manifests are as `change` makes them, by default as they are. Gives the origin, the manifests, and `close`.
 */
export async function serveTarballs(folder, upstream, change = (manifest) => manifest) {
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
  const packed = readdirSync(folder)
    .filter((file) => file.endsWith(".tgz"))
    .map((file) => ({ file, manifest: manifestOf(join(folder, file)) }));
  const manifests = packed.map(({ file, manifest }) => {
    const tarball = readFileSync(join(folder, file));
    const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
    const served = change(manifest);
    const { name, version } = served;
    const versions = {
      [version]: { ...served, dist: { tarball: `${origin}/${file}`, integrity } },
    };
    files.set(`/${name}`, () =>
      JSON.stringify({ name, "dist-tags": { latest: version }, versions }),
    );
    files.set(`/${file}`, () => tarball);
    return served;
  });
  return { origin, manifests, close: () => server.close() };
}

/** Packs `names`, folders of `packages`, into a folder, and serves them with those of ours that they need. */
export function startRegistry(folder, names, upstream) {
  packAll(folder, names);
  return serveTarballs(folder, upstream, asReleased);
}
