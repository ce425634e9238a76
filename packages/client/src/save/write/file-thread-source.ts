/**
 * The program of the thread that hashes a file, and writes to it. Plain text, so that no build step can put it where a
 * thread would not find it.
 *
 * It takes messages `{ gapless }` (the file is written up to there), `{ gapless, chunks, at }` (a write) and
 * `{ gapless, isLast }`, and answers each write with `{ written, fault? }` and the last message with the digest.
 */
export const threadSource: string = `
const { parentPort, workerData: { fd, maxWriteBytes } } = require("node:worker_threads");
const { readSync, writeSync } = require("node:fs");
const hash = require("node:crypto").createHash("sha256");
// behind a longer one, as after what an earlier run kept, bytes that arrive do not wait
const shortLagBytes = ${256 * 2 ** 20};
// blocks that are written ahead of a gap: start to end
const ahead = new Map();
let buffer;
let gapless = 0;
let hashed = 0;
let isLast = false;
let isWaiting = false;
let hasFailed = false;

function advance(to) {
  if (to <= gapless) return;
  for (const start of ahead.keys()) if (start < to) ahead.delete(start);
  gapless = to;
  joinAhead();
}

function joinAhead() {
  for (let end = ahead.get(gapless); end !== undefined; end = ahead.get(gapless)) {
    ahead.delete(gapless);
    gapless = end;
  }
}

function write(chunks, start) {
  let at = start;
  for (const chunk of chunks)
    for (let from = 0; from < chunk.length;) {
      let bytes = 0;
      try {
        bytes = writeSync(fd, chunk, from, Math.min(maxWriteBytes, chunk.length - from), at);
      } catch ({ code, message }) {
        hasFailed = true;
        return endWrite(start, at, { code, message });
      }
      if (hashed === at) {
        hash.update(chunk.subarray(from, from + bytes));
        hashed += bytes;
      }
      from += bytes;
      at += bytes;
    }
  endWrite(start, at);
}

function endWrite(start, at, fault) {
  if (at > start) ahead.set(start, at);
  joinAhead();
  parentPort.postMessage({ written: at - start, fault });
}

function readStep() {
  buffer ??= Buffer.allocUnsafeSlow(512 * 1024);
  const bytes = readSync(fd, buffer, 0, Math.min(buffer.length, gapless - hashed), hashed);
  if (bytes === 0) throw new Error("the file is shorter than it was written");
  hash.update(buffer.subarray(0, bytes));
  hashed += bytes;
}

// faster than it falls behind: without a lag, what is written is hashed out of memory
function catchUp(chunks) {
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
  for (const end = Math.min(gapless, hashed + 4 * bytes); hashed < end; ) readStep();
}

// one step a turn: writes that come meanwhile do not wait for all of it
function goOn() {
  isWaiting = false;
  if (hashed < gapless) readStep();
  waitOrEnd();
}

function waitOrEnd() {
  if (isWaiting) return;
  if (hashed < gapless) {
    isWaiting = true;
    setImmediate(goOn);
  } else if (isLast) {
    parentPort.postMessage(hash.digest("hex"));
    parentPort.close();
  }
}

parentPort.on("message", (message) => {
  advance(message.gapless);
  if (message.isLast) isLast = true;
  else if (message.chunks && hasFailed) parentPort.postMessage({ written: 0 });
  else if (message.chunks) {
    if (gapless - hashed <= shortLagBytes) catchUp(message.chunks);
    write(message.chunks, message.at);
  }
  waitOrEnd();
});
`;
