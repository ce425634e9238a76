import { createInterface } from "node:readline";
import type { Message } from "../base/message.ts";
import { binaryAnswers, idBytes, sent, type BinaryFault } from "./server.ts";

// Option A on standard input and output: `node stdio-server.ts <size> [fault]`.
const [size = "0", fault] = process.argv.slice(2) as [string?, BinaryFault?];
const bytes = Buffer.alloc(Number(size), "literal ");
const answers = binaryAnswers("stream", bytes, fault);
const { id, data } = sent(bytes, fault);

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as Message;
  if (request.id === undefined) continue;
  const answer = answers.answer(request);
  process.stdout.write(`${JSON.stringify(answer.message)}\n`);
  if (!answer.bytes) continue;
  const header = Buffer.alloc(24);
  idBytes(id).copy(header);
  header.writeBigUInt64BE(BigInt(data.length), 16);
  process.stdout.write(Buffer.concat([header, data]));
}
