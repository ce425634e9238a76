// A registry on this machine that has packages of this repository as a release would publish them. Needs the build.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { packAll } from "./pack.mjs";

const unreleased = "0.0.0";
/** The version of a package in a release: the first one is a minor. */
const releasedVersion = (version) => (version === unreleased ? "0.1.0" : version);

/** The manifest inside a tarball. */
function manifestOf(tarball) {
  const { stdout, status } = spawnSync("tar", ["-xzOf", tarball, "package/package.json"]);
  if (status !== 0) throw new Error(`${tarball}: no package/package.json`);
  return JSON.parse(stdout);
}

/** Ranges of packages that were not released yet, as their first release has them. */
const releasedRanges = (ranges = {}, names) =>
  Object.fromEntries(
    Object.entries(ranges).map(([name, range]) => [
      name,
      names.has(name) && range === unreleased ? `^${releasedVersion(range)}` : range,
    ]),
  );

/** A manifest as a release has it. */
const asReleased = (manifest, names) => ({
  ...manifest,
  version: releasedVersion(manifest.version),
  dependencies: releasedRanges(manifest.dependencies, names),
  peerDependencies: releasedRanges(manifest.peerDependencies, names),
});

/**
 * Serves the tarballs of a folder. A request for another package is redirected to `upstream`, the address of a registry, or is
 * 404 without one. Gives the origin, the manifests, and `close`.
 */
export async function serveTarballs(folder, upstream) {
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
  const names = new Set(packed.map(({ manifest }) => manifest.name));
  const manifests = packed.map(({ file, manifest }) => {
    const tarball = readFileSync(join(folder, file));
    const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
    const released = asReleased(manifest, names);
    const { name, version } = released;
    const versions = {
      [version]: { ...released, dist: { tarball: `${origin}/${file}`, integrity } },
    };
    files.set(`/${name}`, () =>
      JSON.stringify({ name, "dist-tags": { latest: version }, versions }),
    );
    files.set(`/${file}`, () => tarball);
    return released;
  });
  return { origin, manifests, close: () => server.close() };
}

/** Packs `names`, folders of `packages`, into a folder, and serves them with those of ours that they need. */
export function startRegistry(folder, names, upstream) {
  packAll(folder, names);
  return serveTarballs(folder, upstream);
}
