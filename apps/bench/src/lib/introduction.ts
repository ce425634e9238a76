import { describeMachine, type Finding } from "./report.ts";
import { isKept } from "./table.ts";

/** The beginning of a page of figures. */
export function introduction(findings: readonly Finding[], runs: number): string {
  const promises = findings.flatMap(({ table }) => table.reach);
  const kept = promises.filter((promise) => isKept(promise)).length;
  const missed = promises.filter((promise) => isKept(promise) === false).length;
  return `# Performance

<!-- written by \`npm run bench -- --publish\`; change apps/bench instead -->

What Sluice costs beside what people use today, measured in one run of \`npm run bench\` on ${new Date().toISOString().slice(0, 10)}: ${describeMachine()}. Of ${promises.length} promises ${kept} were reached and ${missed} missed; each stands below its table.

## How to read it

- Every server and every client is a process of its own, run as built JavaScript. The clients of servers are outside programs: curl, wrk, aria2.
- Subjects take turns, A B C A B C, ${runs} runs each after one to warm up. A figure is the median, with the range and the number of runs behind it.
- Ratios are taken within a round and then the median of them: absolute figures drift with the machine, ratios hold. "of nginx" means nginx is 1.00 in the same round.
- CPU is the processor time of the server process as the operating system counts it, workers included. Peaks are of resident memory.
- nginx has one worker, as Node has one loop. "Two buffers, no checks" is a bare Node server without tokens, access rules, limits or deadlines: the ceiling that Sluice is held against.
- Times of Sluice's client begin at the call, in a client that is connected; curl and aria2 are started anew.
- A program that is not installed leaves its row empty.

Run it yourself: \`npm run bench\`, with \`-- --quick\` for a first look, \`-- --only serve-large,download\` for some tables and \`-- --help\` for the rest.`;
}
