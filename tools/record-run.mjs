// Records a real run of the `sluice` command as docs/run.svg: a folder is served, a download is cut by Ctrl-C, and the same
// command resumes and verifies it. The picture plays once and stays at its end; without animation it shows only that.
// Needs the build, and `script` of util-linux, which gives the command a terminal.
//   node tools/record-run.mjs
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { freePort } from "./free-port.mjs";
import { isMain } from "./is-main.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const program = join(root, "packages/sluice/dist/main.js");
const columns = 114;
const usualPort = "2532";
/** Longer pauses are cut to this. */
const maxPauseMs = 900;
const typingMs = 700;
const cutAfterMs = 2_200;

/** The screen after each text that a terminal got: `{ at, lines }`, without colours. */
export function screensOf(chunks) {
  const lines = [""];
  return chunks.map(({ at, text }) => {
    // a bar is drawn over the line that it is on
    const plain = stripVTControlCharacters(text.replaceAll("\u001b[K", "\0"));
    for (const part of plain.split(/(\r\n|\n|\r|\0)/)) {
      if (part === "\r\n" || part === "\n") lines.push("");
      else if (part === "\r") lines.push(`\r${lines.pop()}`);
      else if (part !== "\0") {
        const line = lines.pop();
        lines.push(line.startsWith("\r") && part !== "" ? part : line + part);
      } else if (lines.at(-1).startsWith("\r")) lines.splice(-1, 1, "");
    }
    return { at, lines: lines.map((line) => line.replace(/^\r+/, "")) };
  });
}

/** Each text of a row with the times between which it is shown, in ms; `until` of the last ones is `undefined`. */
export function spansOf(screens) {
  const spans = [];
  const open = new Map();
  for (const { at, lines } of screens)
    for (let row = 0; row < Math.max(lines.length, open.size); row++) {
      const text = lines[row] ?? "";
      const shown = open.get(row);
      if (shown?.text === text) continue;
      if (shown) shown.until = at;
      open.set(row, { row, text, from: at });
      if (text.trim() !== "") spans.push(open.get(row));
    }
  return spans;
}

const escape = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const seconds = (ms) => `${(ms / 1_000).toFixed(2)}s`;

/** The SVG of a run. Its resting state, without animation, is the last screen. */
export function draw(spans, title) {
  const rows = Math.max(...spans.map(({ row }) => row)) + 1;
  const [width, lineHeight, margin] = [columns * 7.8 + 32, 20, 18];
  const height = rows * lineHeight + 2 * margin;
  const texts = spans.map(({ row, text, from, until }) => {
    const y = margin + row * lineHeight + 14;
    const kind = text.startsWith("$ ") ? ' class="command"' : "";
    const rest = until === undefined ? "" : ' visibility="hidden"';
    const set =
      until === undefined
        ? `<set attributeName="visibility" to="hidden" begin="0s" end="${seconds(from)}"/>`
        : `<set attributeName="visibility" to="visible" begin="${seconds(from)}" end="${seconds(until)}"/>`;
    return `<text x="16" y="${y}"${kind}${rest}>${escape(text)}${set}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">
<title>${escape(title)}</title>
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}.command{fill:#7ee787}</style>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
${texts.join("\n")}
</svg>
`;
}

/** Runs a line in a terminal to its end; gives `chunks` with the time of each since the start. */
async function record(line, folder, { cutAfter } = {}) {
  const env = { ...process.env, XDG_STATE_HOME: join(folder, "state"), TERM: "xterm" };
  const child = spawn("script", ["-qefc", `stty cols ${columns} -echo; ${line}`, "/dev/null"], {
    cwd: folder,
    env,
    timeout: 60_000,
  });
  const startedAt = performance.now();
  const chunks = [];
  child.stdout.setEncoding("utf8").on("data", (text) => {
    chunks.push({ at: performance.now() - startedAt, text });
  });
  const cut = cutAfter && setTimeout(() => child.stdin.write("\u0003"), cutAfter);
  const [status] = await once(child, "close");
  clearTimeout(cut);
  return { chunks, status };
}

async function main(folder) {
  mkdirSync(join(folder, "files"));
  writeFileSync(join(folder, "files/film.mp4"), randomBytes(96 * 2 ** 20));
  writeFileSync(join(folder, "files/report.pdf"), randomBytes(300_000));
  const port = await freePort();
  const url = `http://127.0.0.1:${usualPort}/mcp`;
  const server = spawn(
    process.execPath,
    [program, "serve", "files", "--port", `${port}`, "--no-audit"],
    { cwd: folder, stdio: "ignore" },
  );
  const chunks = [];
  let clock = 0;
  const say = (text) => chunks.push({ at: clock, text });
  try {
    await untilServed(port);
    const steps = [
      { shown: `sluice ls ${url}` },
      { shown: `sluice get ${url} files://local/film.mp4 --limit-rate 24M`, cutAfter: cutAfterMs },
      { shown: `sluice get ${url} files://local/film.mp4 --limit-rate 24M` },
    ];
    say("$ sluice serve ./files &\n");
    for (const { shown, cutAfter } of steps) {
      clock += typingMs;
      say(`$ ${shown}\n`);
      const line = shown
        .replace(/^sluice/, `"${process.execPath}" "${program}"`)
        .replace(usualPort, `${port}`);
      const { chunks: output, status } = await record(line, folder, { cutAfter });
      if (status !== (cutAfter ? 130 : 0)) throw new Error(`${shown} ended with ${status}`);
      let before = 0;
      for (const { at, text } of output) {
        clock += Math.min(at - before, maxPauseMs);
        before = at;
        say(text.replaceAll(`${port}`, usualPort));
      }
    }
  } finally {
    server.kill();
    await once(server, "exit");
  }
  return draw(
    spansOf(screensOf(chunks)),
    "A download is cut by Ctrl-C; the same command resumes it",
  );
}

async function untilServed(port) {
  for (let tries = 0; tries < 100; tries++) {
    const isThere = await fetch(`http://127.0.0.1:${port}/mcp`).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the server does not answer");
}

if (isMain(import.meta.url)) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-record-"));
  try {
    const svg = await main(folder);
    writeFileSync(join(root, "docs/run.svg"), svg);
    console.log(`docs/run.svg: ${Buffer.byteLength(svg)} bytes`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
