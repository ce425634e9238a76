import type { Profile } from "../run/profile.ts";
import { BridgeTrials } from "../system/bridge-trials.ts";
import { Scene } from "../system/scene.ts";

/** Calls of a host through a bridge, over pipes that fill, to a program that crashes and is started again. */
export const bridge: Profile = {
  name: "bridge",
  summary: "calls through a bridge, over pipes that fill, to a program that crashes",
  edits: [],
  mutants: [
    {
      name: "a message that was read whole counts as unsent while others wait",
      runs: 60,
      edits: [
        {
          file: "bridge/src/upstream/line-transport.ts",
          from: "      if (stream.write(`${JSON.stringify(message)}\\n`, settle)) settle();\n",
          to: '      if (stream.write(`${JSON.stringify(message)}\n`)) settle();\n      else stream.setMaxListeners(0).once("drain", settle);\n',
        },
      ],
    },
    {
      name: "every tool may be repeated",
      runs: 30,
      edits: [
        {
          file: "bridge/src/messages/repeatable-calls.ts",
          from: "  return readOnlyHint === true || idempotentHint === true;",
          to: "  return readOnlyHint !== false || idempotentHint === true;",
        },
      ],
    },
    {
      name: "calls are not answered when their connection is lost",
      runs: 30,
      edits: [
        {
          file: "bridge/src/relay/same-revision.ts",
          from: "    this.#calls.failAll(reason);\n",
          to: "",
        },
      ],
    },
    {
      name: "a call that was sent counts as one that was not",
      runs: 30,
      edits: [
        {
          file: "bridge/src/relay/open-calls.ts",
          from: "      this.fail(call, reason, true);\n      call.abort",
          to: "      this.fail(call, reason, false);\n      call.abort",
        },
      ],
    },
    {
      name: "a program does not learn that its bridge left",
      runs: 30,
      edits: [
        {
          file: "bridge/src/upstream/process-transport.ts",
          from: "    child.stdin?.end();\n",
          to: "",
        },
      ],
    },
    {
      name: "a program that was started again is not initialized",
      runs: 30,
      edits: [
        {
          file: "bridge/src/relay/same-revision.ts",
          from: "    await this.#legacy?.replay(connection);\n",
          to: "    void connection;\n",
        },
      ],
    },
    {
      name: "the rest of a line that came in pieces is left out",
      runs: 30,
      edits: [
        {
          file: "bridge/src/upstream/line-transport.ts",
          from: "      } else if (part.length > 0) chunks.push(part);",
          to: "      } else if (part.length > 0) chunks = [part];",
        },
      ],
    },
    {
      name: "a lost connection is not opened again",
      runs: 30,
      edits: [
        {
          file: "bridge/src/upstream/server-link.ts",
          from: "      if (this.#transport === transport) this.#lose(transport, reason);",
          to: "      if (this.#transport === transport && !isFirst) this.#lose(transport, reason);",
        },
      ],
    },
  ],
  begin(run) {
    const scene = new Scene(run, {
      faults: { "program crashes": 0.5 },
      cluster: () => ({ servers: 0 }),
    });
    const { world, random, workload } = scene;
    const trials = new BridgeTrials(run);
    trials.machine.boot();
    const withinMs = 20_000;
    for (let count = 1; count <= 16; count++) {
      const name = `b calls ${count}`;
      const own = world.random(name);
      // some at the same time, so that one waits for the other in the pipe
      const delayMs = random.chance(0.5) ? 5_000 * random.int(1, 4) : random.next() * withinMs;
      workload.begin(name, delayMs, async () => {
        await trials.call(name, own);
      });
    }
    scene.plan("program ends", { times: [0, 3], withinMs }, (own) => trials.crashProgram(own));
    scene.plan("bridge crashes", { times: [0, 1], withinMs }, () => void trials.machine.boot());
    return scene.phases({
      async calm() {
        await world.sleep(70_000);
        const own = world.random("in calm");
        for (const count of [1, 2])
          if (!(await trials.call(`b calls in calm ${count}`, own)))
            world.violate("CALM", `call ${count} has no result`);
        await trials.end();
      },
      idle: () => trials.checkIdle(),
    });
  },
};
