import { createServer, type RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { toNodeHandler as toSdkHandler } from "@modelcontextprotocol/node";
import { toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import {
  openHouse,
  publicPaths,
  token,
  tryDoors,
  verifier,
  type Habits,
  type House,
  type Parts,
} from "../bed/doors.ts";
import { listen } from "../bed/listen.ts";
import { adapted, documentedSite, hasNginx, startNginx } from "../bed/nginx.ts";
import * as express from "../examples/express.ts";
import * as hono from "../examples/hono.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
/** Each action at one in so many spellings: every spelling meets every host, and all of them meet all actions once. */
const few = deep ? 1 : 4;
if (!deep)
  console.info("doors: every action at every spelling, of every host, runs with SLUICE_DEEP");

interface Host extends Habits {
  readonly name: string;
  /** Its resolver takes every caller for the holder of the token. */
  readonly isBlind: boolean;
  readonly mount: (parts: Parts) => RequestListener | Promise<RequestListener>;
}

const bearer: NonNullable<NodeHandlerOptions["authenticate"]> = (request, response, next) => {
  if (request.headers.authorization === `Bearer ${token}`) next();
  else response.writeHead(401).end();
};

const hosts: readonly Host[] = [
  {
    name: "node:http",
    isBlind: true,
    mount: ({ handler }) => toNodeHandler(handler, { authenticate: bearer }),
  },
  {
    name: "Express with the hook",
    isBlind: true,
    mount: ({ handler }) => express.createGuarded(handler, verifier),
  },
  {
    name: "Express with two paths left open",
    isBlind: false,
    opensUploads: true,
    mount: ({ handler, base }) => express.createLeftOpen(handler, verifier, base),
  },
  {
    name: "Hono",
    isBlind: true,
    isResolved: true,
    mount: async ({ handler }) =>
      getRequestListener((await hono.createGuarded(handler, verifier)).fetch),
  },
];

test.each(hosts)(
  "only the one spelling of a URL lets anything in under $name, at every public URL",
  { tags: "slow" },
  async ({ name, mount, isBlind, ...habits }) => {
    const some =
      name === "node:http" ? (["/", "/mcp/", "/m%C3%A9/mcp", "/MCP"] as const) : ["/mcp/"];
    for (const path of deep ? publicPaths : some) {
      await using house = await openHouse(path, mount, { isBlind });
      const oneIn = name === "node:http" && path === "/mcp/" ? 1 : few;
      expect(await tryDoors(house, habits, oneIn), path).toEqual([]);
    }
  },
);

test("the same holds of handler.fetch", async () => {
  for (const path of deep ? publicPaths : ["/mcp/"]) {
    await using house = await openHouse(path, () => () => {}, { isBlind: true });
    const { handler, origin } = house.parts;
    const send: House["send"] = async ({ target, ...init }) => {
      const url = target.startsWith("http:") ? target : `${origin}${target}`;
      // never a request to this host
      if (!URL.canParse(url) || new URL(url).origin !== origin) return { status: 400, text: "" };
      const request = new Request(url, init as RequestInit);
      const isKnown = request.headers.get("authorization") === `Bearer ${token}`;
      if (handler.needsBearer(request) && !isKnown) return { status: 401, text: "" };
      const response = await handler.fetch(request);
      return { status: response.status, text: await response.text() };
    };
    expect(await tryDoors({ ...house, send }, { isResolved: true }, few), path).toEqual([]);
  }
});

test.skipIf(!hasNginx)("the same holds behind nginx, as documented", { tags: "slow" }, async () => {
  const verifying = await listen(
    createServer((request, response) => {
      const isKnown = request.headers.authorization === `Bearer ${token}`;
      response.writeHead(isKnown ? 204 : 401).end();
    }),
  );
  const mount: Host["mount"] = ({ handler }) => {
    const handle = toNodeHandler(handler);
    return (request, response) => {
      // what nginx has verified where it was asked to
      const isKnown = request.headers.authorization === `Bearer ${token}`;
      const auth = { token, clientId: "doors", scopes: [] };
      handle(Object.assign(request, isKnown && { auth }), response);
    };
  };
  await using house = await openHouse("/mcp", mount, { isBlind: false });
  const site = await documentedSite("guides/deploy/open-paths.md");
  const nginx = await startNginx((port) =>
    adapted(site, {
      "listen 8000;": `listen 127.0.0.1:${port};`,
      "127.0.0.1:8001": new URL(house.parts.origin).host,
      "127.0.0.1:9000": `127.0.0.1:${verifying.port}`,
    }),
  );
  try {
    const send: House["send"] = (sent) => house.send({ ...sent, port: nginx.port });
    expect(await tryDoors({ ...house, send }, { isResolved: true }, few)).toEqual([]);
  } finally {
    await nginx.close();
    await verifying.close();
  }
});

test.each<[string, Host["mount"]]>([
  [
    "resolves the path before it is matched",
    ({ handler, origin }) => {
      const handle = toNodeHandler(handler, { authenticate: bearer });
      return (req, res) => {
        if (URL.canParse(req.url!, origin)) req.url = new URL(req.url!, origin).pathname;
        handle(req, res);
      };
    },
  ],
  [
    "says by a parse of its own what needs no token, and is the endpoint at every other path",
    ({ mcp, base }) => {
      const handle = toSdkHandler(mcp);
      return (req, res) => {
        const isOpen = req.url!.startsWith(`${base}/uploads/`);
        if (isOpen || req.headers.authorization === `Bearer ${token}`)
          void handle(req as never, res);
        else res.writeHead(401).end();
      };
    },
  ],
  [
    "compares paths without their case",
    ({ handler, base, origin }) => {
      const handle = toNodeHandler(handler, { authenticate: bearer });
      return (req, res) => {
        const path = base || "/";
        if (req.url!.toLowerCase() === path.toLowerCase()) req.url = path;
        if (req.url!.toLowerCase() === `${origin}${path}`) req.url = path;
        handle(req, res);
      };
    },
  ],
])("a server that %s is caught", async (_name, mount) => {
  await using house = await openHouse("/mcp", mount, { isBlind: true });
  expect(await tryDoors(house, {}, few)).not.toEqual([]);
});
