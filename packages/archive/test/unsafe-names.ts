const encoder = new TextEncoder();

/** What is wrong with a path, written without the code that makes paths safe. */
const rules: readonly (readonly [finding: string, isBroken: (path: string) => boolean])[] = [
  ["absolute", (path) => path.startsWith("/")],
  ["empty segment", (path) => path.split("/").includes("")],
  ["way up", (path) => path.split("/").some((name) => /^\.+$/.test(name))],
  ["hidden", (path) => path.split("/").some((name) => name.startsWith("."))],
  ["backslash", (path) => path.includes("\\")],
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  ["control", (path) => /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(path)],
  ["direction", (path) => /\p{Bidi_Control}/u.test(path)],
  ["forbidden on Windows", (path) => /[<>:"|?*]/.test(path)],
  ["end", (path) => path.split("/").some((name) => /^ |[. ]$/.test(name))],
  [
    "device",
    (path) =>
      path
        .split("/")
        .some((name) => /^(con|prn|aux|nul|(com|lpt)[\d¹²³]|con(in|out)\$) *(\.|$)/i.test(name)),
  ],
  ["option or home", (path) => path.split("/").some((name) => /^[-~]/.test(name))],
  [
    "short name",
    (path) => path.split("/").some((name) => /^[^.]{1,6}~\d+(\.[^.]{0,3})?$/.test(name)),
  ],
  ["long segment", (path) => path.split("/").some((name) => encoder.encode(name).length > 255)],
  ["long path", (path) => encoder.encode(path).length > 900],
];

/** Faults in the paths of one archive; empty if there are none. */
export function findUnsafe(paths: readonly string[]): string[] {
  const findings = paths.flatMap((path) =>
    rules.flatMap(([finding, isBroken]) => (isBroken(path) ? [`${finding}: ${path}`] : [])),
  );
  const same = (path: string): string =>
    path
      .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
      .normalize("NFD")
      .toUpperCase();
  const files = new Set(paths.map(same));
  if (files.size < paths.length) findings.push(`${paths.length - files.size} collide`);
  for (const path of paths) {
    const segments = same(path).split("/");
    for (let depth = 1; depth < segments.length; depth++)
      if (files.has(segments.slice(0, depth).join("/"))) findings.push(`file as folder: ${path}`);
  }
  return findings;
}
