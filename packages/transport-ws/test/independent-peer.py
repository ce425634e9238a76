"""A peer that shares no code with ours: the Python package websockets, version 10 or later.

`client URL` talks to our server and prints what it saw as JSON. `server` listens, prints its port,
and answers a client of ours until its input ends.
"""
import asyncio
import json
import sys

import websockets


def request(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


OPENING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"resourceStreaming": {}},
    "clientInfo": {"name": "python", "version": "1"},
}


async def ended(socket):
    try:
        while True:
            await socket.recv()
    except websockets.ConnectionClosed:
        return socket.close_code


async def client(url):
    seen = {}
    async with websockets.connect(url, subprotocols=["mcp"], max_size=2**24) as socket:
        seen["subprotocol"] = socket.subprotocol
        seen["extensions"] = len(socket.extensions)
        await socket.send(request(1, "initialize", **OPENING))
        seen["server"] = json.loads(await socket.recv())["result"]["serverInfo"]["name"]
        await socket.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        # one message in many frames
        text = request(2, "tools/call", name="echo", arguments={"text": "grüße 🌊 " * 20_000})
        await socket.send([text[at : at + 1_001] for at in range(0, len(text), 1_001)])
        seen["echo"] = json.loads(await socket.recv())["result"]["content"][0]["text"] == "grüße 🌊 " * 20_000
        await (await socket.ping(b"are you there"))
        await socket.send(request(3, "resources/stream", uri="files://demo/a.bin"))
        seen["downloadUrl"] = json.loads(await socket.recv())["result"]["downloadUrl"]
        await socket.close()
        seen["ours"] = socket.close_code
    async with websockets.connect(url, subprotocols=["mcp"]) as socket:
        await socket.send(b"\x00")
        seen["binary"] = await ended(socket)
    async with websockets.connect(url, subprotocols=["mcp"]) as socket:
        await socket.send("{")
        seen["error"] = json.loads(await socket.recv())["error"]["code"]
        seen["notJson"] = await ended(socket)
    async with websockets.connect(url, subprotocols=["mcp"]) as socket:
        await socket.send("x" * (2**22 + 1))
        seen["large"] = await ended(socket)
    try:
        await websockets.connect(url, subprotocols=["other"])
    except websockets.InvalidStatusCode as error:
        seen["other"] = error.status_code
    print(json.dumps(seen))


async def answer(socket, _path=None):
    async for text in socket:
        message = json.loads(text)
        if message.get("method") == "initialize":
            info = {"name": "python", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif message.get("method") == "tools/call":
            arguments = message["params"].get("arguments", {})
            if "close" in arguments:
                await socket.close(arguments["close"], "as you wish")
                return
            await socket.ping()
            result = {"content": [{"type": "text", "text": arguments["text"]}]}
        else:
            result = {}
        if "id" in message:
            reply = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            await socket.send([reply[at : at + 777] for at in range(0, len(reply), 777)])


async def server():
    async with websockets.serve(answer, "127.0.0.1", 0, subprotocols=["mcp"], max_size=2**24) as listening:
        print(listening.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(client(sys.argv[2]) if sys.argv[1] == "client" else server())
