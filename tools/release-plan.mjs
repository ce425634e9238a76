// What a release changes in the tree: one version for all packages, the changelog, and the changesets that it consumes.
// `changeset version` has no part in it: our plugins are optional peers of the command, and it makes a package a major version
// whenever a peer of its own leaves its range, as each new version of an exact one does.

/** Kinds of changes, the greatest first. */
const kinds = ["major", "minor", "patch"];

/** The greatest kind of change among changesets `{ releases }`, or undefined without one. */
export function kindOf(changesets) {
  const found = new Set(changesets.flatMap(({ releases }) => releases.map(({ type }) => type)));
  return kinds.find((kind) => found.has(kind));
}

/** The version after `version` for a kind of change. Throws for a version that is not `N.N.N`. */
export function nextVersion(version, kind) {
  const [, ...parts] = /^(\d+)\.(\d+)\.(\d+)$/.exec(version) ?? [];
  if (parts.length === 0) throw new Error(`${version} is not a released version N.N.N`);
  const at = kinds.indexOf(kind);
  return parts.map((part, i) => (i < at ? part : i === at ? Number(part) + 1 : 0)).join(".");
}

/** The version of a commit on the way to the next release; later ones sort behind earlier ones. */
export function canaryVersion(next, time, commit) {
  // the letter keeps a commit of digits only from being read as a number
  const at = time.toISOString().replaceAll(/\D/g, "").slice(0, 14);
  return `${next}-canary.${at}.g${commit.slice(0, 7)}`;
}

/** The one version of manifests. Throws when there are several. */
export function commonVersion(manifests) {
  const versions = new Set(manifests.map(({ version }) => version));
  if (versions.size !== 1)
    throw new Error(`packages have several versions: ${[...versions].join(", ")}`);
  return [...versions][0];
}

/** The packages that a changeset names, unless it names them all. */
function subject({ releases }, packages) {
  const names = releases.map(({ name }) => name.replace(/^@sluice\//, ""));
  return names.length === packages ? "" : `**${names.toSorted().join(", ")}**: `;
}

/**
 * The section of a release in the changelog.
 * `changesets` are `{ summary, releases, commit }`; `packages` is how many packages there are; `home` is the address of the
 * repository.
 */
export function changelogSection({ version, date, home, changesets, packages }) {
  const textOf = (changeset) => `${subject(changeset, packages)}${changeset.summary.trim()}`;
  const link = ({ commit }) => (commit ? ` ([${commit}](${home}/commit/${commit}))` : "");
  const parts = kinds.map((kind) => {
    const those = changesets.filter((changeset) => kindOf([changeset]) === kind);
    const long = those.map(textOf).filter((text) => text.includes("\n"));
    const short = those.filter((changeset) => !textOf(changeset).includes("\n"));
    const list = short.map((changeset) => `- ${textOf(changeset)}${link(changeset)}`).join("\n");
    if (those.length === 0) return "";
    const title = `### ${kind[0].toUpperCase()}${kind.slice(1)} changes`;
    return `${[title, ...long, list].filter(Boolean).join("\n\n")}\n\n`;
  });
  return `## [${version}](${home}/releases/tag/v${version}) (${date})\n\n${parts.join("")}`;
}

const changelogTitle = "# Changelog\n\n";

/** A changelog with a new section before the others. */
export const withSection = (changelog = changelogTitle, section) =>
  `${changelogTitle}${section}${changelog.slice(changelogTitle.length)}`;

/** A manifest, or another JSON file, whose own version and ranges of our packages are those of a release. */
export function withVersion(text, from, to) {
  return text
    .replaceAll(`"version": "${from}"`, `"version": "${to}"`)
    .replaceAll(/("@?sluice(?:\/[\w-]+)?": "\^)[\w.-]+/g, `$1${to}`);
}

/**
 * The files that a release writes, by path; undefined for one that it removes.
 * `files` has the JSON files with a version of ours by path, `changelog` the old text if any.
 */
export function plannedFiles({ files, from, to, changesets, changelog, date, home, packages }) {
  const versioned = Object.entries(files).map(([path, text]) => [
    path,
    withVersion(text, from, to),
  ]);
  const section = changelogSection({ version: to, date, home, changesets, packages });
  return Object.fromEntries([
    ...versioned,
    ["CHANGELOG.md", withSection(changelog, section)],
    ...changesets.map(({ id }) => [`.changeset/${id}.md`, undefined]),
  ]);
}

/** The file name that the packer gives a package, from `name@version`. */
export const tarballOf = (id) => `${id.replace(/^@/, "").replace("/", "-").replace("@", "-")}.tgz`;
