// The window of a host that shows an App, over the host's side of the official library. Runs in a browser.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

const proxyReady = "ui/notifications/sandbox-proxy-ready";
let bridge;

/** Shows an App in place of the one before, see `ShownApp`. Resolves when the App has its result. */
globalThis.showApp = async ({ sandboxUrl, html, csp, context, capabilities, result }) => {
  await bridge?.close();
  document.querySelector("iframe")?.remove();
  const frame = document.createElement("iframe");
  frame.title = "App";
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms allow-popups");
  frame.style.cssText = "width: 100%; border: 0";
  frame.src = `${sandboxUrl}&csp=${encodeURIComponent(JSON.stringify(csp))}`;
  const ready = new Promise((resolve) => {
    addEventListener("message", function listen({ source, data }) {
      if (source !== frame.contentWindow || data?.method !== proxyReady) return;
      removeEventListener("message", listen);
      resolve();
    });
  });
  document.body.append(frame);
  await ready;

  bridge = new AppBridge(null, { name: "test host", version: "1.0.0" }, capabilities, {
    hostContext: context,
  });
  const ask = (method) => async (params) =>
    (await globalThis.onAppRequest(method, params)) ? {} : { isError: true };
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the library's handler of a request
  bridge.onmessage = ask("ui/message");
  bridge.onopenlink = ask("ui/open-link");
  bridge.ondownloadfile = ask("ui/download-file");
  bridge.addEventListener("sizechange", ({ height }) => {
    frame.style.height = `${height}px`;
  });
  const initialized = new Promise((resolve) => bridge.addEventListener("initialized", resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  await bridge.sendSandboxResourceReady({ html, csp });
  await initialized;
  await bridge.sendToolInput({ arguments: {} });
  if (result) await bridge.sendToolResult(result);
};

/** Gives the App another result. */
globalThis.sendResult = (result) => bridge.sendToolResult(result);
globalThis.setTheme = (theme) => bridge.setHostContext({ theme });

/** Posts anything to the App, as the host's window. */
globalThis.postToApp = (message) =>
  document.querySelector("iframe").contentWindow.postMessage(message, "*");
