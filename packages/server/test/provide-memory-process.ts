// Reads large bodies of providers and tells what they held in memory, as one line of JSON. A process of its own: in one
// that has loaded much else, a run of the collector takes a hundred times as long. Argument: bytes of a body.
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Provided, ProvidedInfo } from "../src/provide/provider.ts";
import { backendOf } from "./provide-fixture.ts";

/** How far the memory that is held grew while a body was read. */
export interface ProvidingCost {
  readonly whole: number;
  /** Of its last half alone, with all before it made again. */
  readonly end: number;
  /** Of a body whose provider keeps what it made. */
  readonly kept: number;
}

const size = Number(process.argv[2]);

async function* generate(): AsyncGenerator<Uint8Array> {
  const chunkBytes = 64 * 1024;
  for (let left = size; left > 0; left -= chunkBytes) yield Buffer.alloc(chunkBytes, "x");
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes that are still held. */
async function held(): Promise<number> {
  collect();
  // what buffers held is given back a turn later
  await turn();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function growth(open: () => Provided, start = 0): Promise<number> {
  const describe = (): ProvidedInfo => ({ size, version: "1" });
  const backend = backendOf({ open, describe, rewind: true });
  const { body } = await backend.open("file", start > 0 ? { range: { start } } : {});
  const before = await held();
  let received = 0;
  let grown = 0;
  for await (const { byteLength } of body) {
    received += byteLength;
    if (received % (size / 4) === 0) grown = Math.max(grown, (await held()) - before);
  }
  if (received !== size - start) throw new Error(`${received} bytes came`);
  return grown;
}

const kept: Uint8Array[] = [];
async function* keeping(): AsyncGenerator<Uint8Array> {
  for await (const one of generate()) {
    kept.push(one);
    yield one;
  }
}

const cost: ProvidingCost = {
  whole: await growth(generate),
  end: await growth(generate, size / 2),
  kept: await growth(keeping),
};
process.stdout.write(JSON.stringify(cost));
