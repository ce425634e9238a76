import hashlib, json, sys, urllib.request
endpoint, uri, path = sys.argv[1:]
meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "stream.py", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"dev.sluice/resource-streaming": {}}},
}
call = {"jsonrpc": "2.0", "id": 1, "method": "resources/stream", "params": {"uri": uri, "_meta": meta}}
headers = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream, */*",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "resources/stream",
}
request = urllib.request.Request(endpoint, json.dumps(call).encode(), headers)
sha256, size = hashlib.sha256(), 0
response = urllib.request.urlopen(request, timeout=30)
if response.headers.get_content_type() == "application/json":
    sys.exit(f"no bytes: {json.load(response)}")
with response, open(path, "xb") as file:
    while chunk := response.read(2**20):
        size += file.write(chunk)
        sha256.update(chunk)
assert size == int(response.headers.get("Content-Length", size)), "the bytes ended early"
print(path, size, sha256.hexdigest())
